import type { ChangeListener, ChangingCache } from "../claims/reasons/facts.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { Reflected } from "../kube/reflected-items.ts";
import { Reflector, type ReflectorOptions, type ReflectorState } from "../kube/reflector.ts";
import { sharingParts } from "./shared-parts.ts";

/** Longest wait to list or watch again, ms: nobody works meanwhile, and there are only two controllers. */
const RETRY_MS_MAX = 2_000;

export type FollowedLog = ReflectorOptions<Reflected>["log"];

export interface FollowedCache<T> extends ChangingCache<T> {
  /** The path of the collection in the version that is served. */
  readonly path: string;
  /** The resource has no definition. */
  readonly missing: boolean;
}

export type FollowHooks<T extends Reflected> = Pick<
  ReflectorOptions<T>,
  "project" | "onUpsert" | "onDelete" | "onDeletion" | "otherPaths" | "metadataOnly" | "onState" | "onVersion"
> & {
  /** The first list must not come from the server's cache. */
  readonly quorum?: boolean;
  /** Once its first list has succeeded or failed, the copy is no reason for doubt. */
  readonly isDispensable?: boolean;
};

/** Reflectors of several resources, which are believed or doubted together. */
export class FollowedResources<Resource extends string> {
  readonly #api: KubeApi;
  readonly #log: FollowedLog;
  readonly #onChange: (resource: Resource) => void;
  readonly #reflectors = new Map<Resource, Reflector<never>>();
  readonly #states = new Map<Resource, ReflectorState>();
  readonly #needed = new Map<Resource, Reflector<never>>();
  readonly #changes = new Map<Resource, number>();
  /** Dispensable ones of which the server has told, or failed to. */
  readonly #dispensable = new Set<Resource>();

  /** `onChange`: an object of a resource has changed, or whether the resource is followed. */
  constructor(api: KubeApi, log: FollowedLog, onChange: (resource: Resource) => void = () => {}) {
    this.#api = api;
    this.#log = log;
    this.#onChange = onChange;
  }

  /** Before `start`. */
  follow<T extends Reflected>(resource: Resource, path: string, hooks: FollowHooks<T>): FollowedCache<T> {
    const { quorum = false, isDispensable = false, onState, onUpsert, onDelete, project, ...rest } = hooks;
    let latest: T | null = null;
    const listeners: ChangeListener<T>[] = [];
    const changed: ChangeListener<T> = (now, before) => {
      this.#changes.set(resource, this.changesOf(resource) + 1);
      for (const listener of listeners) listener(now, before);
      this.#onChange(resource);
    };
    const reflector = new Reflector<T>({
      api: this.#api,
      path,
      ...(quorum ? {} : { query: { resourceVersion: "0" } }),
      isStreamed: true,
      log: this.#log,
      timings: { retryMsMax: RETRY_MS_MAX },
      onState: (state, problem) => {
        this.#states.set(resource, state);
        if (isDispensable && state !== "listing") this.#dispensable.add(resource);
        onState?.(state, problem);
        this.#onChange(resource);
      },
      project: (object) => {
        const item = project(object);
        if (item !== null) latest = latest === null ? item : sharingParts(item, latest);
        return item;
      },
      onUpsert: (item, previous) => {
        changed(item, previous ?? null);
        onUpsert(item, previous);
      },
      onDelete: (item) => {
        changed(null, item);
        onDelete(item);
      },
      ...rest,
    });
    this.#reflectors.set(resource, reflector as unknown as Reflector<never>);
    if (!isDispensable) this.#needed.set(resource, reflector as unknown as Reflector<never>);
    const isKnown = () => this.isKnown(resource);
    return {
      get items() {
        return reflector.items;
      },
      get known() {
        return isKnown();
      },
      get path() {
        return reflector.servedPath;
      },
      get missing() {
        return reflector.missing;
      },
      onChange: (listener) => void listeners.push(listener),
    };
  }

  start(): void {
    for (const reflector of this.#reflectors.values()) reflector.start();
  }

  /** Resolves once every resource that is not dispensable is listed, or has no definition; or with `stop`. */
  async listed(): Promise<void> {
    await Promise.all([...this.#needed.values()].map((reflector) => reflector.waitSynced()));
  }

  /** The server may have another state than before: everything is listed again. */
  relist(): void {
    for (const reflector of this.#reflectors.values()) reflector.relist();
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#reflectors.values()].map((reflector) => reflector.stop()));
  }

  /** null: the copies can be relied upon. A resource without a definition is no reason: its objects are unknown. */
  get doubt(): string | null {
    for (const [resource, reflector] of this.#reflectors) {
      if (this.#dispensable.has(resource)) continue;
      if (!reflector.synced && !reflector.missing) return `the ${resource} are not listed yet`;
      if (this.#states.get(resource) === "away") return `the ${resource} cannot be followed: no contact`;
    }
    return null;
  }

  /** Whether each resource's objects are known, and its watch is up. */
  get synced(): Record<string, boolean> {
    return Object.fromEntries([...this.#reflectors.keys()].map((one) => [one, this.isKnown(one)]));
  }

  /** How many changes of the resource there were since the start. */
  changesOf(resource: Resource): number {
    return this.#changes.get(resource) ?? 0;
  }

  isKnown(resource: Resource): boolean {
    const reflector = this.#reflectors.get(resource);
    return reflector?.synced === true && !reflector.missing && this.#states.get(resource) !== "away";
  }
}

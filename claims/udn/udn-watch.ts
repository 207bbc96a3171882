import type { KubeApi } from "../../kube/kube-api.ts";
import { Reflector, type ReflectorState } from "../../kube/reflector.ts";
import type { Log } from "../../platform/log.ts";
import { CUDNS_PATH, projectUdn, UDNS_PATH, type UdnKind, type UdnView } from "./udn-object.ts";

export interface UdnWatchOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "info" | "warn">;
  readonly onChange: () => void;
}

const PATHS: Readonly<Record<UdnKind, string>> = {
  UserDefinedNetwork: UDNS_PATH,
  ClusterUserDefinedNetwork: CUDNS_PATH,
};

/** The (Cluster)UserDefinedNetworks of the cluster; none if their definitions are missing or may not be read. */
export class UdnWatch {
  readonly #reflectors: readonly { readonly reflector: Reflector<UdnView>; state: ReflectorState | null }[];

  constructor({ api, log, onChange }: UdnWatchOptions) {
    this.#reflectors = (Object.keys(PATHS) as UdnKind[]).map((kind) => {
      const followed: { reflector: Reflector<UdnView>; state: ReflectorState | null } = {
        state: null,
        reflector: new Reflector<UdnView>({
          api,
          path: PATHS[kind],
          query: { resourceVersion: "0" },
          forbiddenIsEmpty: true,
          log,
          project: (object) => projectUdn(object, kind),
          onUpsert: onChange,
          onDelete: onChange,
          onState: (state) => {
            followed.state = state;
            if (state === "forbidden") log.warn(`${PATHS[kind]}: no right to read them; they are left out`);
          },
        }),
      };
      return followed;
    });
  }

  start(): void {
    for (const { reflector } of this.#reflectors) reflector.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#reflectors.map(({ reflector }) => reflector.stop()));
  }

  /** Whether everything was listed at least once. */
  get synced(): boolean {
    return this.#reflectors.every(
      ({ reflector }) => reflector.synced || reflector.missing || reflector.forbidden,
    );
  }

  /** Whether a watch is down now. */
  get away(): boolean {
    return this.#reflectors.some(({ state }) => state === "away");
  }

  /** Resolves with true once everything was listed; with false when it was stopped or the signal aborted before. */
  async waitSynced(signal: AbortSignal): Promise<boolean> {
    const all = await Promise.all(this.#reflectors.map(({ reflector }) => reflector.waitSynced(signal)));
    return all.every((one) => one);
  }

  *views(): Generator<UdnView> {
    for (const { reflector } of this.#reflectors) yield* reflector.items.values();
  }
}

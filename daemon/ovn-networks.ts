import { OvnNodePods, type OvnNodePodsParts } from "../identity/sources/ovn/node-pods.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import type { Reflected } from "../kube/reflected-items.ts";
import { Reflector } from "../kube/reflector.ts";
import { readUdnServiceReference } from "../networks/udn/service-reference.ts";
import { CUDNS_PATH, projectUdn, UDNS_PATH, type UdnKind } from "../networks/udn/udn-object.ts";
import type { Log } from "../platform/log.ts";
import { PeriodicTask } from "../platform/periodic-task.ts";

/** Changes that come together, such as those of a first list, are looked at once after this time, ms. */
const SETTLE_MS = 50;
/** While something is not listed yet: it is looked at again after this time, ms. */
const LOOK_AGAIN_MS = 500;

interface ServedNetwork extends Reflected {
  readonly network: string;
}

interface Parts extends Omit<OvnNodePodsParts, "served"> {
  readonly api: KubeApi;
  readonly log: Log;
  /** Whether the pods of this node and the definitions are listed. */
  readonly isListed: () => boolean;
}

/**
 * Networks whose (Cluster)UserDefinedNetwork has the annotation `metadata.holdfast.dev/serve: "true"`, with a pod of
 * this node on them. One that refers to a Service is left to OVN's balancer.
 */
export class OvnNetworks {
  readonly pods: OvnNodePods;
  readonly #isListed: () => boolean;
  readonly #reflectors: readonly Reflector<ServedNetwork>[];
  #names: readonly string[] = [];
  #isKnown = false;
  readonly #looking: PeriodicTask;
  #told: () => void = () => {};
  #changed: () => void = () => {};

  constructor({ api, log, isListed, ...parts }: Parts) {
    this.#isListed = isListed;
    this.#looking = new PeriodicTask({ clock: api.clock, settleMs: SETTLE_MS, work: () => this.#look() });
    this.pods = new OvnNodePods({ ...parts, served: () => this.#names });
    const reflect = (kind: UdnKind, path: string) =>
      new Reflector<ServedNetwork>({
        api,
        path,
        query: { resourceVersion: "0" },
        forbiddenIsEmpty: true,
        log,
        project: (object) => projectServed(object, kind),
        onUpsert: () => this.changed(),
        onDelete: () => this.changed(),
        onState: (state) => {
          if (state === "forbidden") log.warn(`${path}: no right to read them; their guests get no metadata`);
        },
      });
    this.#reflectors = [reflect("UserDefinedNetwork", UDNS_PATH), reflect("ClusterUserDefinedNetwork", CUDNS_PATH)];
  }

  get names(): readonly string[] {
    return this.#names;
  }

  /** `told` is called when `names` are known, and when they are others. Call before `start`. */
  follow(told: () => void): void {
    this.#told = told;
  }

  /** `changed` is called when what is said of pods may have changed. Call before `start`. */
  watch(changed: () => void): void {
    this.#changed = changed;
  }

  start(): void {
    for (const reflector of this.#reflectors) reflector.start();
    this.#looking.start();
    this.#looking.trigger();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#looking.stop(), ...this.#reflectors.map((reflector) => reflector.stop())]);
  }

  /** A pod of this node, a NetworkAttachmentDefinition or a network has changed. */
  changed(): void {
    this.#changed();
    this.#looking.trigger();
  }

  #look(): void {
    const isListed = this.#reflectors.every(({ synced, missing, forbidden }) => synced || missing || forbidden);
    // Half of what is there would take the rules of the other half away.
    if (!isListed || !this.#isListed()) {
      this.#looking.trigger(LOOK_AGAIN_MS);
      return;
    }
    const served = this.#reflectors.flatMap(({ items }) => [...items.values()].map(({ network }) => network));
    const here = served.length === 0 ? new Set<string>() : this.pods.networks();
    const names = served.filter((network) => here.has(network)).sort();
    if (this.#isKnown && names.join() === this.#names.join()) return;
    this.#isKnown = true;
    this.#names = names;
    this.#told();
  }
}

function projectServed(object: unknown, kind: UdnKind): ServedNetwork | null {
  const view = projectUdn(object, kind);
  if (!view.serves || readUdnServiceReference(view).kind !== "none") return null;
  const { key, uid, resourceVersion, network } = view;
  return { key, uid, resourceVersion, network };
}

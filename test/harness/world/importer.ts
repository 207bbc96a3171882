import { FollowedResources } from "../../../controller/followed-resources.ts";
import { NetworkImports } from "../../../controller/network-imports.ts";
import type { OpenKubeApi } from "../../../kube/kube-api.ts";
import { networkObjectOf } from "../../../kube/network-object.ts";
import { type IPNetwork, NADS_PATH, NETWORKS_PATH } from "../../../kube/objects.ts";
import type { Reflected } from "../../../kube/reflected-items.ts";
import { DefinitionCatalog } from "../../../networks/definition-catalog.ts";
import { projectNad } from "../../../networks/nad-view.ts";
import { readOwner } from "../../../networks/network-owner.ts";
import { PeriodicTask } from "../../../platform/periodic-task.ts";

/**
 * What failed, and definitions whose pause is not over, are looked at again after so long, ms; else each change is
 * followed.
 */
const LOOK_MS = 500;
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

/** A controller's imports of networks (NetworkImports), and nothing else of a controller. */
export class Importer {
  readonly #api: OpenKubeApi;
  readonly #resources: FollowedResources<"nads" | "networks">;
  readonly #task: PeriodicTask;

  constructor(api: OpenKubeApi) {
    this.#api = api;
    const definitions = new DefinitionCatalog(api.clock);
    this.#resources = new FollowedResources(api, SILENT);
    const changed = () => this.#task.trigger();
    const networks = this.#resources.follow<Reflected & { readonly object: IPNetwork }>("networks", NETWORKS_PATH, {
      project: (object) => {
        const { name, uid, resourceVersion } = object.metadata;
        return { key: name, uid, resourceVersion, object };
      },
      onUpsert: ({ object }) => {
        definitions.setOwner(object.spec.network, readOwner(object));
        changed();
      },
      onState: () => changed(),
      onDelete: ({ object }) => {
        const one = networkObjectOf(object.spec.network, (name) => networks.items.get(name)?.object);
        definitions.setOwner(object.spec.network, readOwner(one));
        changed();
      },
    });
    const nads = this.#resources.follow("nads", NADS_PATH, {
      quorum: true,
      project: projectNad,
      onState: (state) => {
        if (state !== "watching") definitions.interrupted();
        changed();
      },
      onUpsert: (nad) => {
        definitions.upsert(nad);
        changed();
      },
      onDelete: ({ key }) => {
        definitions.remove(key);
        changed();
      },
    });
    const imports = new NetworkImports({
      api,
      definitions,
      networks,
      onRefused: () => {},
      idle: () => (nads.known ? null : "the definitions are not listed yet"),
      log: SILENT,
    });
    this.#task = new PeriodicTask({
      clock: api.clock,
      work: (signal) => imports.runPass(signal),
      nextMs: () => (imports.waits ? api.clock.monotonicMs() + LOOK_MS : Number.POSITIVE_INFINITY),
      retryMs: LOOK_MS,
      onFailure: () => {},
    });
    this.#resources.start();
    this.#task.start();
  }

  async stop(): Promise<void> {
    await this.#task.stop();
    await this.#resources.stop();
    this.#api.close();
  }
}

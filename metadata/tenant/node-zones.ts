import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { NODES_PATH, objectPath } from "../../kube/objects.ts";
import { objectAt, readTexts } from "../../kube/views/object-metadata.ts";
import { CachedReads } from "./cached-reads.ts";

const ZONE_LABEL = "topology.kubernetes.io/zone";
/** A node's zone is believed for so long, ms. */
const BELIEVED_MS = 10 * 60_000;
/** What could not be read is asked for again after this, ms. */
const FAILED_MS = 60_000;
/** A guest waits so long, ms, for its zone: it is served without one as well. */
const DEADLINE_MS = 1_000;

/** Zones of nodes, by their label: those of this node, and of the others between which VMs move. */
export class NodeZones {
  readonly #objects: ObjectClient;
  readonly #zones: CachedReads<string | null | undefined>;

  constructor(api: KubeApi) {
    this.#objects = new ObjectClient(api);
    this.#zones = new CachedReads(api, DEADLINE_MS);
  }

  /** null: it has none, or it cannot be read. */
  async zoneOf(node: string): Promise<string | null> {
    const read = (believedMs: number) =>
      this.#zones.read(node, (deadlineMs) => this.#read(node, deadlineMs), believedMs);
    const zone = await read(BELIEVED_MS);
    return (zone === undefined ? await read(FAILED_MS) : zone) ?? null;
  }

  async #read(node: string, deadlineMs: number): Promise<string | null | undefined> {
    const read = await this.#objects.tryGet(objectPath(NODES_PATH, node), deadlineMs);
    const isNode = read.kind === "present" && Object.keys(objectAt(read.object, "metadata", "Node")).length > 0;
    return isNode ? readTexts(read.object, "labels").get(ZONE_LABEL) || null : undefined;
  }
}

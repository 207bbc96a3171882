import type { KubeApi } from "../../../kube/kube-api.ts";
import { ObjectClient } from "../../../kube/object-client.ts";
import { NODES_PATH, objectPath } from "../../../kube/objects.ts";
import type { StateDirectory } from "../../journal/state-directory.ts";

/** The journal's note of the Node with which it last compared everything: when it was created, and its UID. */
const NODE_OBJECT = "node-object";

/** This node's Node object, as it is when a comparison with the API begins. */
export interface NodeObject {
  /** What the journal keeps of it; null: there is none, or it cannot be read. */
  readonly note: string | null;
  /** Later than the one the journal knew: the cluster has given back what was used here. See docs/decisions/0064. */
  readonly isNew: boolean;
}

/** Throws ApiAway. */
export async function readNodeObject(api: KubeApi, directory: StateDirectory, node: string): Promise<NodeObject> {
  const read = await new ObjectClient(api).get(objectPath(NODES_PATH, node));
  if (read.kind !== "present") return { note: null, isNew: false };
  const { creationTimestamp, uid } = read.object.metadata;
  const known = directory.ledger.sql.meta.get(NODE_OBJECT)?.value;
  return {
    note: `${creationTimestamp} ${uid}`,
    isNew: known !== undefined && creationTimestamp > (known.split(" ")[0] as string),
  };
}

/** Everything has been compared since the Node was read: from now on the journal is that Node's. */
export async function noteNodeObject({ note }: NodeObject, directory: StateDirectory): Promise<void> {
  if (note === null || directory.ledger.sql.meta.get(NODE_OBJECT)?.value === note) return;
  await directory.write((ledger) => ledger.sql.putMeta.run(NODE_OBJECT, note));
}

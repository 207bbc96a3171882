import { problemOf } from "../../../kube/answers.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { ObjectClient } from "../../../kube/object-client.ts";
import { NODES_PATH, objectPath } from "../../../kube/objects.ts";
import type { NodeContext } from "../../node-context.ts";

/**
 * `other`: the Node object describes another boot: another machine's, or this one's before its kubelet has reported.
 * `unknown`: the Node object does not tell. See docs/decisions/0081.
 */
export type NodeIdentity =
  | { readonly kind: "ours" }
  | { readonly kind: "other"; readonly problem: string }
  | { readonly kind: "unknown"; readonly problem: string };

/** Throws ApiAway. */
export async function readNodeIdentity(api: KubeApi, context: NodeContext): Promise<NodeIdentity> {
  const { node, bootId, kernelBootId = bootId } = context;
  const read = await new ObjectClient(api).get(objectPath(NODES_PATH, node));
  if (read.kind !== "present")
    return { kind: "unknown", problem: `Node ${node} cannot be read: ${problemOf(read.answer)}` };
  const reported: unknown = read.object?.status?.nodeInfo?.bootID;
  if (typeof reported !== "string" || reported === "")
    return { kind: "unknown", problem: `Node ${node} reports no boot ID` };
  if (reported === kernelBootId) return { kind: "ours" };
  return {
    kind: "other",
    problem: `Node ${node} reports boot ${reported}, and this machine is in boot ${kernelBootId}: its kubelet has not reported since a restart, or this daemon has the name of another node (--node), or reads another boot ID than the kubelet (--boot-id-file)`,
  };
}

/** The Node object of our name describes another boot: nothing may be settled in its name. */
export class OtherNode extends Error {}

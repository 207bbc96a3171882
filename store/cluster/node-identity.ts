import type { KubeApi } from "../../kube/kube-api.ts";
import { NODES_PATH, objectPath } from "../../kube/objects.ts";
import type { NodeContext } from "../node-context.ts";

const READ_MS_MAX = 10_000;

/**
 * Whether this machine is the node whose name it has. `other`: the Node object speaks of another boot, which is another machine,
 * or this one before its kubelet has reported. `unknown`: the Node object does not tell.
 * See docs/decisions/0027.
 */
export type NodeIdentity =
  | { readonly kind: "ours" }
  | { readonly kind: "other"; readonly problem: string }
  | { readonly kind: "unknown"; readonly problem: string };

/** Throws ApiAway. */
export async function readNodeIdentity(api: KubeApi, context: NodeContext): Promise<NodeIdentity> {
  const { node, bootId } = context;
  const path = objectPath(NODES_PATH, node);
  const deadlineMs = performance.now() + READ_MS_MAX;
  const { status, body } = await api.send({ method: "GET", path, priority: "housekeeping", deadlineMs });
  if (status !== 200)
    return { kind: "unknown", problem: `Node ${node} cannot be read: ${status} ${body?.message ?? ""}` };
  const reported: unknown = body?.status?.nodeInfo?.bootID;
  if (typeof reported !== "string" || reported === "")
    return { kind: "unknown", problem: `Node ${node} reports no boot ID` };
  if (reported === bootId) return { kind: "ours" };
  return {
    kind: "other",
    problem: `Node ${node} reports boot ${reported}, and this machine is in boot ${bootId}: its kubelet has not reported since a restart, or this daemon has the name of another node (--node), or reads another boot ID than the kubelet (--boot-id-file)`,
  };
}

/** The Node object of our name speaks of another boot: nothing may be settled in its name. */
export class OtherNode extends Error {}

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Diagnosis } from "../../admin/admin-api.ts";
import { part } from "../../admin/diagnosis.ts";

/** Every pod of Holdfast that may ask the API server has it, and no node. */
const SERVICE_ACCOUNT = "var/run/secrets/kubernetes.io/serviceaccount";

/** Where the command runs. A pod has its own root directory and programs: of the node it sees what is mounted. */
export type Place = "node" | "daemon's pod" | "other pod";

export function placeOf(root: string, socket: string): Place {
  if (!existsSync(join(root, SERVICE_ACCOUNT, "token"))) return "node";
  return existsSync(join(root, dirname(socket))) ? "daemon's pod" : "other pod";
}

/** All that a pod without a daemon's directories can say. */
export function examineOtherPod(root: string): Diagnosis[] {
  return part("place").unknown(
    "this pod has no daemon: nothing of a node can be seen from here",
    `kubectl -n ${namespaceOf(root)} exec daemonset/holdfast-node -- holdfast doctor examines a node; holdfast --kubeconfig FILE doctor, where you use kubectl, the cluster`,
  );
}

function namespaceOf(root: string): string {
  try {
    return readFileSync(join(root, SERVICE_ACCOUNT, "namespace"), "utf8").trim();
  } catch {
    return "holdfast-system";
  }
}

import { permittedObject } from "../kube/answers.ts";
import type { KubeApi } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { CLAIMS_PATH, namespacedPath } from "../kube/objects.ts";
import type { ObjectName } from "../kube/views/claim-reference.ts";
import { type ClaimView, projectClaim } from "../kube/views/claim-view.ts";

/** A quorum read; null: no such claim, or no definition of IPAMClaims. Throws ApiAway, RefusalError API_REFUSED. */
export async function readClaim(
  api: KubeApi,
  { namespace, name }: ObjectName,
  deadlineMs: number,
): Promise<ClaimView | null> {
  const path = namespacedPath(CLAIMS_PATH, namespace, name);
  const reading = await new ObjectClient(api, "add").get(path, deadlineMs);
  if (reading.kind === "not-served") return null;
  const object = permittedObject(reading, `read IPAMClaim ${namespace}/${name}`);
  return object === null ? null : projectClaim(object);
}

import type { Finding } from "../../../ipam/finding.ts";
import type { KubeApi } from "../../../kube/kube-api.ts";
import { ObjectClient } from "../../../kube/object-client.ts";
import { objectPath } from "../../../kube/objects.ts";

const DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/** The definitions of deploy/crds that no address can be given without. */
const DEFINITIONS = ["ipallocations.ipam.holdfast.dev", "ipnetworks.ipam.holdfast.dev"];
const LOOK_MS = 5_000;

/** One that is being deleted accepts no object, and its objects' finalizers keep it so. Unreadable: not checked. */
export async function checkDefinitions(api: KubeApi): Promise<Finding[]> {
  const objects = new ObjectClient(api);
  const findings: Finding[] = [];
  for (const name of DEFINITIONS) {
    try {
      const read = await objects.tryGet(objectPath(DEFINITIONS_PATH, name), api.clock.monotonicMs() + LOOK_MS);
      if (read.kind === "present" && read.object.metadata.deletionTimestamp !== undefined)
        findings.push(beingDeleted(name));
    } catch (error) {
      if ((error as Error).name !== "ClusterProblem") throw error;
    }
  }
  return findings;
}

function beingDeleted(name: string): Finding {
  return {
    invariant: "definition",
    message: `the definition ${name} is being deleted: no object of it can be created, so nobody gets an address that is new to the cluster`,
    hint: "it cannot be kept any more: remove the finalizers of its objects, then apply deploy/crds again (docs/uninstall.md, A definition that is being deleted)",
  };
}

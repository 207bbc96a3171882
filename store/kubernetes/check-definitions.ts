import type { Finding } from "../records.ts";
import { ApiAway, type KubeApi } from "./kube-api.ts";

const DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/** The definitions of deploy/crds. */
const NAMES = ["ipallocations.ipam.holdfast.dev", "ipnetworks.ipam.holdfast.dev"];
const LOOK_MS = 5_000;

/**
 * A definition that is being deleted takes no new object, and its objects' finalizers keep it like that for ever. What
 * may not be read is not judged: the right is younger than the first release.
 */
export async function checkDefinitions(api: KubeApi): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const name of NAMES) {
    const deadlineMs = performance.now() + LOOK_MS;
    try {
      const path = `${DEFINITIONS_PATH}/${name}`;
      const { status, body } = await api.send({ method: "GET", path, priority: "housekeeping", deadlineMs });
      if (status === 200 && body.metadata.deletionTimestamp !== undefined) findings.push(beingDeleted(name));
    } catch (error) {
      if (!(error instanceof ApiAway) && (error as Error).name !== "ClusterProblem") throw error;
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

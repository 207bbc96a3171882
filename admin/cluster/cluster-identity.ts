import { PodDirectory } from "../../claims/pod-directory.ts";
import { answerFrom } from "../../identity/allocation-source.ts";
import type { NetworkFacts } from "../../identity/compose.ts";
import type { Holding } from "../../identity/holding.ts";
import type { IdentityQuestion } from "../../identity/query.ts";
import { ClusterIdentities } from "../../identity/sources/cluster.ts";
import { ClusterVms } from "../../identity/sources/cluster-vms.ts";
import type { IdentityAnswer, IdentityVm } from "../../identity/wire.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { networksKnown } from "./allocations-at.ts";
import { ClusterProblem } from "./asking/cluster-problem.ts";
import { readDefinitions } from "./snapshot.ts";

export async function identityInCluster(api: KubeApi, question: IdentityQuestion): Promise<IdentityAnswer> {
  const definitions = await readDefinitions(api);
  const { catalog } = definitions;
  const pods = new PodDirectory(api, () => undefined);
  const facts: NetworkFacts = {
    definition: (network) => catalog.definitionOf(network)?.definition,
    dns: ({ dns }) => dns,
    mtu: () => null,
    mac: () => null,
    asked: (pod, interfaceName) => pods.askedOn(pod, interfaceName),
    routes: ({ routes }) => routes,
  };
  const vms = new ClusterVms(api, pods, { readsVms: true });
  const source = new ClusterIdentities({ api, facts, vms, networks: () => networksKnown(definitions) });
  return answerFrom({ find: (one) => source.find(one), vm: (found) => vmOrRecorded(source, found) }, question, facts);
}

/** Without permission to read pods and VMs, or where KubeVirt is gone, the answer comes from the allocations alone. */
async function vmOrRecorded(source: ClusterIdentities, holdings: readonly Holding[]): Promise<IdentityVm | null> {
  try {
    return await source.vm(holdings);
  } catch (error) {
    if (!(error instanceof ClusterProblem && error.kind === "refused")) throw error;
    const recorded = holdings.find(({ vm }) => vm !== null);
    if (!recorded?.vm) return null;
    return { namespace: recorded.owner.namespace, ...recorded.vm, vmiUid: null, firmwareUuid: null };
  }
}

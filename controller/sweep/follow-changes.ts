import type { CachedAllocation, ClaimViewWithFact } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import type { ChangingCache, NodeFact } from "../../claims/reasons/facts.ts";
import type { IPNetwork } from "../../kube/objects.ts";
import type { Reflected } from "../../kube/reflected-items.ts";
import type { AddressPoolView } from "../../kube/views/address-pool-view.ts";
import type { CapiClusterView, MachineAddressView, MachineClaimView } from "../../kube/views/machine-claim-view.ts";
import type { DependencyKind } from "./dependents.ts";
import type { Sweeper } from "./sweeper.ts";

export interface SweptCopies {
  readonly allocations: ChangingCache<CachedAllocation>;
  readonly claims: ChangingCache<ClaimViewWithFact>;
  readonly pods: ChangingCache<SweptPod>;
  readonly nodes: ChangingCache<NodeFact & Reflected>;
  readonly networks: ChangingCache<{ readonly object: IPNetwork }>;
  /** null: no machines are followed. */
  readonly machines: {
    readonly claims: ChangingCache<MachineClaimView>;
    readonly addresses: ChangingCache<MachineAddressView>;
    readonly pools: ChangingCache<AddressPoolView>;
    readonly clusters: ChangingCache<CapiClusterView>;
  } | null;
  /** Metal3Data; null: they are not followed. */
  readonly data: ChangingCache<Reflected> | null;
}

/** From now on the sweeper is told of every change of the copies that may alter a verdict. Before they are followed. */
export function followChanges(
  { allocations, claims, pods, nodes, networks, machines, data }: SweptCopies,
  sweeper: Sweeper,
): void {
  allocations.onChange((...change) => sweeper.allocationChanged(...change));
  pods.onChange((...change) => sweeper.podChanged(...change));
  const anyChange = (kind: DependencyKind) => (now: Reflected | null, before: Reflected | null) => {
    const key = (now ?? before)?.key;
    if (key !== undefined) sweeper.factChanged(kind, key);
  };
  claims.onChange(anyChange("claim"));
  // Kubelets write their nodes all the time, and many verdicts rest on each.
  const onNode = anyChange("node");
  nodes.onChange((now, before) => {
    if (now?.unreachable !== before?.unreachable) onNode(now, before);
  });
  // So does this controller with the networks' status, of which verdicts need little.
  const pausedIn = (one: { object: IPNetwork } | null) => one && (one.object.status?.pausedClusters ?? []).join();
  networks.onChange((now, before) => {
    if (pausedIn(now) === pausedIn(before)) return;
    for (const one of [now, before]) {
      const network = one?.object.spec?.network;
      if (network !== undefined) sweeper.factChanged("network", network);
    }
  });
  machines?.claims.onChange(anyChange("addressClaim"));
  machines?.addresses.onChange(anyChange("address"));
  machines?.clusters.onChange(anyChange("cluster"));
  machines?.pools.onChange((now, before) => {
    const namespace = (now ?? before)?.namespace;
    if (namespace !== undefined && now?.generation !== before?.generation) sweeper.poolChanged(namespace);
  });
  data?.onChange(anyChange("machineData"));
}

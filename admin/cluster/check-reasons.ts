import { describeHolder, fromAllocationOwner } from "../../allocations/owners.ts";
import { cachedFacts } from "../../claims/reasons/caches.ts";
import type { Facts } from "../../claims/reasons/facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { Rules, Verdict } from "../../claims/reasons/verdict.ts";
import type { Finding } from "../../ipam/finding.ts";
import { isMachine } from "../../ipam/owner.ts";
import type { IPAllocation } from "../../kube/objects.ts";
import type { Grace } from "./grace.ts";
import type { ClusterSnapshot } from "./snapshot.ts";

const RELEASE_HINT =
  "the controller releases it; look again in a minute, and see whether the controller runs when this stays";

const WHY: Readonly<Record<Extract<Verdict, { kind: "release" | "repair" | "report" }>["why"], string>> = {
  "claim-does-not-list": "which lists other addresses",
  "claim-gone": "which is gone, with every pod that used it",
  "pod-completed": "which has ended",
  "pod-gone": "which is gone, with its containers",
  "node-gone": "whose node is gone",
  "claim-does-not-use": "which has another address",
  "cluster-gone": "which is gone, and so is its cluster",
  "preallocation-gone": "for which no AddressPool keeps it any more",
  "retention-over": "for which it was retained long enough",
  "cooling-with-finalizer":
    "which has let go of it; its cool-down is over, but it cannot be deleted: our finalizer is still on it",
  "owner-incomplete": "of which name or namespace is missing: nobody can tell whether it lives",
  "container-without-attachment": "of which no node is recorded: nobody can tell whether it runs",
  unsound: "",
};

/**
 * I3: every allocation has a living reason, and claims that cannot be deleted do not keep unused addresses. `undated`:
 * nothing says when the reason ended, and the controller is about to act.
 */
export function checkReasons(
  snapshot: ClusterSnapshot,
  grace: Grace,
): { readonly dated: Finding[]; readonly undated: Finding[] } {
  const { allocations, claims, pods, nodes, catalog, machines } = snapshot;
  const facts = cachedFacts({
    allocations: { items: allocations, known: true },
    claims: { items: claims.items, known: claims.complete },
    pods: { items: pods.items, known: pods.complete },
    nodes: { items: new Map([...nodes].map((name) => [name, { unreachable: false }])), known: true },
    stoppedPods: { has: () => false },
    catalog,
    machines,
  });
  const rules: Rules = {
    graceSeconds: 0,
    podGoneReleaseSeconds: 0,
    clusterGoneReleaseSeconds: 0,
    coolingKeepSeconds: 0,
    wallMs: () => grace.nowMs,
    definitionOf: (network) => catalog.definitionOf(network)?.definition ?? null,
  };
  const dated: Finding[] = [];
  const undated: Finding[] = [];
  const kept = new KeptForMoved();
  for (const one of allocations.values()) {
    const { object } = one;
    const verdict = judge(one, facts, rules);
    kept.note(object, verdict, (cluster) => machines?.clusters.items.has(cluster) === true);
    const finding = findingOf(object, verdict);
    const { since, retainedUntil } = object.status ?? {};
    if (finding === null || !grace.isOver(retainedUntil ?? since)) continue;
    (retainedUntil === undefined ? undated : dated).push(finding);
  }
  return { dated: [...dated, ...kept.findings, ...stuckClaims(snapshot, facts, grace)], undated };
}

function findingOf(object: IPAllocation, verdict: Verdict): Finding | null {
  const { network, address, owner } = object.spec ?? {};
  const held = () => `${address} of network ${network} is held by ${describeHolder(owner)}`;
  const release = () =>
    `holdfast release ${address.split("/")[0]} --network ${network} takes it back, once nothing uses it`;
  if (isUnattendedPod(object, verdict)) {
    const node = object.status?.node ? `node ${object.status.node}` : "a node that is not recorded";
    const message = `${held()}, which is gone and had it before Holdfast: its containers may run on ${node}`;
    const hint = `the controller releases it within a minute where it has seen them end; else ${release()}`;
    return { invariant: "I3", message, hint };
  }
  const reported = verdict.kind === "release" || verdict.kind === "repair" || verdict.kind === "report";
  // A mismatch with its name is a finding of I1.
  if (!reported || verdict.why === "unsound") return null;
  const message = `${held()}, ${WHY[verdict.why]}`;
  return { invariant: "I3", message, hint: verdict.kind === "report" ? release() : RELEASE_HINT };
}

/** Nothing on its node reports the end of its containers. */
function isUnattendedPod({ spec, status }: IPAllocation, { why }: Verdict): boolean {
  const isAttached = Object.keys(status?.attachments ?? {}).length > 0;
  return why === "container-may-run" && spec.owner.kind === "Pod" && !isAttached;
}

function stuckClaims({ catalog, claims }: ClusterSnapshot, facts: Facts, grace: Grace): Finding[] {
  const ours = new Set(catalog.networks());
  return [...claims.items.values()].flatMap((claim) => {
    const { key, namespace, name, network, ips, deletionTimestamp } = claim;
    if (deletionTimestamp === null || !ours.has(network) || ips.length === 0) return [];
    const users = facts.podsNaming(namespace, name);
    if (users.kind !== "present" || users.it.length > 0 || !grace.isOver(deletionTimestamp)) return [];
    const message = `claim ${key} is being deleted since ${deletionTimestamp} and keeps ${ips.join(", ")} of network ${network}, though no pod names it`;
    const hint = `whoever set its finalizers must remove them: kubectl get ipamclaim -n ${namespace} ${name} -o yaml`;
    return [{ invariant: "stuck", message, hint }];
  });
}

/** I3: addresses that are kept because their machines may live under another management cluster; by cluster. */
class KeptForMoved {
  readonly #counts = new Map<string, { network: string; cluster: string; why: string; count: number }>();

  note({ spec }: IPAllocation, verdict: Verdict, isThere: (cluster: string) => boolean): void {
    const { owner, network } = spec;
    if (verdict.kind !== "keep" || (verdict.why !== "claim-moved" && verdict.why !== "cluster-gone")) return;
    if (!owner.cluster || !isMachine(fromAllocationOwner(owner).kind)) return;
    const cluster = `${owner.namespace}/${owner.cluster}`;
    // A pause ends, and so does a move.
    if (isThere(cluster)) return;
    const key = `${network} ${cluster} ${verdict.why}`;
    const known = this.#counts.get(key) ?? { network, cluster, why: verdict.why, count: 0 };
    this.#counts.set(key, { ...known, count: known.count + 1 });
  }

  get findings(): Finding[] {
    return [...this.#counts.values()].map(({ network, cluster, why, count }) => ({
      invariant: "I3",
      message: `${count} ${count === 1 ? "address" : "addresses"} of network ${network} ${count === 1 ? "is" : "are"} kept for machines of cluster ${cluster}, ${
        why === "claim-moved"
          ? "which moved to another management cluster"
          : "which is gone, and nobody saw whether it moved"
      }`,
      hint: `holdfast release --moved ${cluster} frees them, where no machine of it uses this network any more`,
    }));
  }
}

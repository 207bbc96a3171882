import { sameAllocationOwner } from "../../allocations/allocation-object.ts";
import type { Cache, CachedAllocation } from "../../claims/reasons/caches.ts";
import type { SweptPod } from "../../claims/reasons/fact-views.ts";
import { isPod } from "../../claims/reasons/facts.ts";
import { attachmentsIn, type IPAllocation } from "../../kube/objects.ts";
import { TurnBudget } from "../../kube/turn-budget.ts";
import type { ClaimView } from "../../kube/views/claim-view.ts";
import type { Clock } from "../../platform/time.ts";

/** A launcher pod that runs, and what it has on one network. */
export interface LivingLauncher {
  readonly pod: SweptPod;
  readonly vmi: NonNullable<SweptPod["vmi"]>;
  readonly network: string;
  /** Allocations by interface of the pod. */
  readonly interfaces: ReadonlyMap<string, readonly IPAllocation[]>;
}

/** The launcher pods that use addresses of some networks, by the caches alone. */
export async function livingLaunchers(options: {
  /** null: all of them. */
  readonly networks: ReadonlySet<string> | null;
  readonly pods: Cache<SweptPod>;
  readonly allocations: Cache<CachedAllocation>;
  readonly clock: Clock;
}): Promise<{ of(claim: ClaimView): LivingLauncher[] }> {
  const { networks, pods, allocations, clock } = options;
  const found = new Map<string, LivingLauncher & { readonly interfaces: Map<string, IPAllocation[]> }>();
  const budget = new TurnBudget(clock);
  for (const one of [...allocations.items.values()]) {
    if (budget.isSpent) await budget.nextTurn();
    if (one.state !== "Bound" || networks?.has(one.network) === false) continue;
    const { object } = one;
    for (const user of usersOf(object)) {
      const pod = pods.items.get(`${user.namespace}/${user.name}`);
      if (!pod?.vmi || pod.terminal || !isPod(pod, user.uid)) continue;
      const { network } = object.spec;
      const key = `${pod.key} ${network}`;
      const launcher = found.get(key) ?? { pod, vmi: pod.vmi, network, interfaces: new Map() };
      found.set(key, launcher);
      const others = launcher.interfaces.get(user.interface) ?? [];
      if (!others.includes(object)) launcher.interfaces.set(user.interface, [...others, object]);
    }
  }
  const all = [...found.values()].sort((a, b) => older(a.pod, b.pod));
  return {
    // The guest of a VM that migrates has the addresses of its older launcher. A claim may lack its network
    // (docs/decisions/0093).
    of: ({ namespace, name, network }) =>
      all.filter(
        ({ pod, vmi, network: its }) =>
          (network === "" || its === network) && pod.namespace === namespace && name.startsWith(`${vmi.name}.`),
      ),
  };
}

/**
 * Whether an allocation, as just read, may become a claim's: the launcher has it as a pod or by a former claim of that
 * name, which is gone then, and nobody uses it who does not run the same VM. `pods` are those that the caches know.
 */
export function mayHandOver(
  object: IPAllocation,
  to: {
    readonly claim: ClaimView;
    readonly launcher: LivingLauncher;
    readonly podInterface: string;
    readonly pods: Cache<SweptPod>;
  },
): boolean {
  const { claim, launcher, podInterface, pods } = to;
  if (object.status?.state !== "Bound") return false;
  const { owner } = object.spec;
  const attachments = attachmentsIn(object);
  const isUsed = attachments.some(
    (one) => one.interface === podInterface && one.pod !== undefined && isPod(launcher.pod, one.pod.uid),
  );
  const isPods = owner.kind === "Pod" && isPod(launcher.pod, owner.uid) && owner.interface === podInterface;
  const isFormer = owner.kind === "IPAMClaim" && owner.namespace === claim.namespace && owner.name === claim.name;
  const isOwn = sameAllocationOwner(owner, { kind: "IPAMClaim", uid: claim.uid, interface: "" });
  if (!isPods && !((isFormer || isOwn) && isUsed)) return false;
  return attachments.every(({ pod }) => {
    const user = pod && pods.items.get(`${pod.namespace}/${pod.name}`);
    return user?.vmi?.uid === launcher.vmi.uid && isPod(user, pod?.uid ?? "");
  });
}

interface User {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly interface: string;
}

/** The pod that owns an allocation, also one from before Holdfast, and those that are attached to it. */
function usersOf(object: IPAllocation): User[] {
  const { owner } = object.spec;
  const attached = attachmentsIn(object).flatMap(({ pod, interface: name }) =>
    pod === undefined ? [] : [{ ...pod, interface: name }],
  );
  if (owner.kind !== "Pod") return attached;
  const { namespace = "", name = "", uid, interface: interfaceName = "" } = owner;
  return [{ namespace, name, uid, interface: interfaceName }, ...attached];
}

function older(a: SweptPod, b: SweptPod): number {
  if (a.creationTimestamp !== b.creationTimestamp) return a.creationTimestamp < b.creationTimestamp ? -1 : 1;
  return a.key < b.key ? -1 : 1;
}

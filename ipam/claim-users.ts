import type { AttachAsk, Attacher, AttachView, ClaimUser, Fact, KnownAttachment, KnownClaim } from "./attach-view.ts";

/** The first other user of the claim that is not of the same VM; null: there is none. */
export function userInTheWay<A extends KnownAttachment, C extends KnownClaim>(
  view: Pick<AttachView<A, C>, "ask" | "usersOf" | "isUserGone" | "mayShare">,
  attacher: Pick<Attacher<A, C>, "superseded">,
  claim: C,
  others: readonly A[],
): Fact<ClaimUser | null> {
  const { ask } = view;
  const users = otherUsers(view, attacher, claim, others);
  if (users === undefined) return undefined;
  for (const user of users) {
    // Two interfaces of one pod cannot have the same address.
    if (ask.pod !== null && user.pod?.uid === ask.pod.uid) return user;
    const mayShare = view.mayShare(user, claim);
    if (mayShare === undefined) return undefined;
    if (!mayShare) return user;
  }
  return null;
}

/** The other users of the claim that are not replaced and not gone: any is in the way, or of a VM that migrates. */
export function otherUsers<A extends KnownAttachment, C extends KnownClaim>(
  view: Pick<AttachView<A, C>, "ask" | "usersOf" | "isUserGone">,
  { superseded: replaced }: Pick<Attacher<A, C>, "superseded">,
  claim: C,
  others: readonly A[],
): Fact<readonly ClaimUser[]> {
  const { ask } = view;
  return view
    .usersOf(others)
    ?.filter(
      (user) =>
        !isSameInterface(user, ask) &&
        !isOfSamePod(user, ask) &&
        !replaced.some(({ attachment }) => isSameInterface(attachment, user)) &&
        !view.isUserGone(user, claim),
    );
}

/** An earlier sandbox of the same pod's interface, or this one. */
export function isOfSamePod(
  one: Pick<ClaimUser, "interface" | "pod">,
  { interface: interfaceName, pod }: Pick<AttachAsk, "interface" | "pod">,
): boolean {
  return pod !== null && one.pod?.uid === pod.uid && one.interface === interfaceName;
}

/** `pod shop/web-0 (net1) on node a`, or its container. */
export function describeUser({ containerId, interface: interfaceName, pod, node }: ClaimUser): string {
  const who = pod === null ? `container ${containerId}` : `pod ${pod.namespace}/${pod.name}`;
  return `${who} (${interfaceName})${node === null ? "" : ` on node ${node}`}`;
}

function isSameInterface(
  a: Pick<ClaimUser, "containerId" | "interface">,
  b: Pick<ClaimUser, "containerId" | "interface">,
): boolean {
  return a.containerId === b.containerId && a.interface === b.interface;
}

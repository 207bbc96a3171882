import { refusedBy } from "../kube/answers.ts";
import { claimObject, type EventObject, type EventWriter } from "../kube/events.ts";
import { ApiAway, type KubeApi, type Priority } from "../kube/kube-api.ts";
import { ObjectClient } from "../kube/object-client.ts";
import { ANNOTATION_FOLLOWED, CLAIMS_PATH, namespacedPath } from "../kube/objects.ts";
import { type ClaimView, claimAddresses, projectClaim } from "../kube/views/claim-view.ts";
import { closedChange, type NetworkAddresses, openChange } from "../kube/views/followed-network.ts";
import { elementFor, readNetworkSelection } from "../kube/views/network-selection.ts";
import type { PodView } from "../kube/views/pod-view.ts";
import type { VmiView } from "../kube/views/vmi-view.ts";
import type { ClaimReading } from "../store/cluster/parts/claim-access.ts";
import { interfaceBehind } from "./vm-claims.ts";

export interface ClaimWithView extends ClaimReading {
  readonly view: ClaimView;
}

/** Writes of a claim's network, and of what it moves to there (docs/decisions/0066, 0067). `vmi`: is told too. */
export class ClaimNetworks {
  readonly #objects: ObjectClient;
  readonly #events: Pick<EventWriter, "inform"> | undefined;

  constructor(api: KubeApi, events: Pick<EventWriter, "inform"> | undefined, priority: Priority = "add") {
    this.#objects = new ObjectClient(api, priority);
    this.#events = events;
  }

  /** See ClaimAccess.changeNetwork. */
  async change(
    { view }: ClaimWithView,
    to: NetworkAddresses,
    deadlineMs: number,
    vmi: EventObject | null = null,
  ): Promise<ClaimWithView | "changed"> {
    const { key, network, ips, resourceVersion } = view;
    // Entries that nobody can read would be lost with the list.
    claimAddresses(view);
    const annotation = ips.length === 0 ? null : openChange({ network, ips }, to);
    const written = await this.#objects.patch(
      namespacedPath(CLAIMS_PATH, view.namespace, view.name),
      {
        metadata: { resourceVersion, annotations: { [ANNOTATION_FOLLOWED]: annotation } },
        spec: { network: to.network },
      },
      deadlineMs,
    );
    if (written.kind === "conflict" || written.kind === "absent") return "changed";
    if (written.kind === "refused")
      throw refusedBy(written.answer, `change spec.network of IPAMClaim ${key} to ${to.network}`);
    // It was of no other network before (ipam/follow-network.ts): nothing has changed for anybody.
    if (network === "") return readingOf(projectClaim(written.object));
    const now = to.ips.join(", ");
    const before = ips.join(", ") || "nothing";
    const [reason, message] =
      network === to.network
        ? ["AddressChanged", `${now} on network ${network} in place of ${before}, as the VM asks for`]
        : [
            "NetworkChanged",
            `its VM goes from network ${network} to ${to.network}, where it has ${now}; ${before} of network ${network} is kept while it is in use`,
          ];
    for (const object of [claimObject(view), vmi]) if (object !== null) this.#events?.inform(object, reason, message);
    return readingOf(projectClaim(written.object));
  }

  /** See ClaimAccess.closeChange. The next ADD that finds it open tries again. */
  async close({ namespace, name }: ClaimReading, deadlineMs: number): Promise<void> {
    const path = namespacedPath(CLAIMS_PATH, namespace, name);
    try {
      const read = await this.#objects.get(path, deadlineMs);
      if (read.kind !== "present") return;
      const { followed, resourceVersion } = projectClaim(read.object);
      if (!followed?.isOpen || !followed.isListed) return;
      const annotations = { [ANNOTATION_FOLLOWED]: closedChange(followed.former) };
      await this.#objects.patch(path, { metadata: { resourceVersion, annotations } }, deadlineMs);
    } catch (error) {
      if (!(error instanceof ApiAway)) throw error;
    }
  }
}

/** Not where the launcher of a migration that was given up is late: the claim would leave the VM with it. */
export function isWhereVmIs(pod: PodView, podInterface: string, vmi: VmiView | null): boolean {
  const wanted = vmi && interfaceBehind(vmi.interfaces, podInterface)?.nad;
  if (!wanted) return false;
  const nad = elementFor(readNetworkSelection(pod.annotations, pod.namespace), podInterface)?.nad;
  return nad !== null && nad !== undefined && `${nad.namespace}/${nad.name}` === keyOf(wanted, pod.namespace);
}

/** `shop/blue`, of a name that may be without its namespace. */
function keyOf(nad: string, namespace: string): string {
  return nad.includes("/") ? nad : `${namespace}/${nad}`;
}

export function readingOf(view: ClaimView): ClaimWithView {
  const { namespace, name, uid, resourceVersion, network, ips, ipRequests, vm, followed } = view;
  return { namespace, name, uid, resourceVersion, network, ips, ipRequests, vm, followed, view };
}

import type { PodIdentity } from "../../../allocations/records.ts";
import type { ClusterStoreLog } from "../../node-context.ts";
import type { HeldUses } from "./held.ts";
import type { OwnObjects } from "./own-objects.ts";

/** Why the journal may not have had what the API server has. */
const WHY: { readonly [W in OwnObjects["why"]]: string } = {
  "new journal": "the journal was empty",
  "first in boot": "the journal last served an earlier boot and did not have all",
  restored: "the API server may have been restored",
};

export function tellOwnObjects(log: ClusterStoreLog, { why, recorded, pending }: OwnObjects): void {
  if (recorded > 0)
    log.warn({ recorded }, `${WHY[why]}; what the API knows of this node's containers is recorded again`);
  if (why === "first in boot" && pending > 0)
    log.warn(
      { pending },
      "the machine was rebooted in the middle of ADDs; what they had reserved for pods that have ended is given back",
    );
}

export function tellHeldUses(
  log: ClusterStoreLog,
  warnPod: (pod: PodIdentity | null, reason: string, message: string) => void,
  { restored, lost, over, republished, freedWithNode, problems }: HeldUses,
): void {
  if (freedWithNode)
    log.warn(
      "this node's Node object was deleted, so the cluster gave back what its containers use: what nobody else has got since is put back",
    );
  if (problems.length > 0)
    log.error(
      { problems },
      "what this node holds could not be compared or put back for all of its attachments: the API server refuses it (a webhook, a policy, an object that is not sound); tried again every reassertIntervalSeconds, and holdfast check names the addresses",
    );
  if (republished.length > 0)
    log.warn({ claims: republished }, "claims that had lost their list of addresses have it again");
  if (restored > 0)
    log.warn({ restored }, "allocations that had been taken away from this node's attachments are restored");
  for (const { network, containerId, interface: name, pod } of over)
    log.warn(
      { network, containerId, interface: name, pod },
      "its pod has ended and its address was released, and no DEL came; ended",
    );
  for (const { network, containerId, interface: name, ips, pod } of lost) {
    const addresses = ips.map((ip) => ip.address).join(", ");
    const message = `${addresses} of network ${network} belongs to somebody else, and container ${containerId} (${name}) still uses it`;
    log.error({ network, containerId, interface: name }, message);
    warnPod(pod, "AddressLost", `${message}; recreate the pod`);
  }
}

import type { AttachmentView, PodIdentity } from "../allocations/records.ts";
import { describeOwner, isPreallocation, type Owner } from "../ipam/owner.ts";

/** Enough of a container ID to find it: as long as docker and crictl show. */
const CONTAINER_ID_CHARS = 12;

export function shortContainerId(id: string): string {
  return id.length <= CONTAINER_ID_CHARS + 1 ? id : `${id.slice(0, CONTAINER_ID_CHARS)}…`;
}

/** `claim default/vm1`, `pod shop/web-0 (net1)`, `container 3fa9c21b07de… (eth0)`, `machine claim metal/m0`. */
export function shortHolder(owner: Owner): string {
  const text = describeOwner({ ...owner, uid: shortContainerId(owner.uid) });
  return isPreallocation(owner) ? `${text} (to come)` : text;
}

/** The same in full, with a machine's cluster. */
export function fullHolder(owner: Owner): string {
  const text = isPreallocation(owner) ? `${describeOwner(owner)} (to come)` : describeOwner(owner);
  return owner.cluster ? `${text} of cluster ${owner.namespace}/${owner.cluster}` : text;
}

export function podName(pod: PodIdentity): string {
  return `${pod.namespace}/${pod.name || pod.uid}`;
}

/** The pods of a claim, else the containers. */
export function usersOf(
  owner: Owner,
  attachments: readonly Pick<AttachmentView, "pod" | "containerID" | "interface">[],
): string {
  return distinct(
    attachments.map(({ pod, containerID, interface: name }) =>
      owner.kind === "claim" && pod !== null
        ? `pod ${podName(pod)}`
        : `container ${shortContainerId(containerID)} (${name})`,
    ),
  );
}

/** In their order. */
export function distinct(texts: readonly string[]): string {
  return [...new Set(texts)].join(",");
}

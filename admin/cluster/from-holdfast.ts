import { networkObjectOf } from "../../kube/network-object.ts";
import { IMPORTED } from "../../networks/import-sources.ts";
import { parseTime } from "../../platform/time.ts";
import type { ClusterSnapshot, SnapshotPod } from "./snapshot.ts";

/**
 * Whether a pod certainly got what it reports on a network from Holdfast, not from the plugin before: the NetworkAttachmentDefinition is
 * older than the pod and was never edited, or it is the one that counts and the network was imported when the pod was created.
 */
export function isFromHoldfast(
  { catalog, nads, networks }: Pick<ClusterSnapshot, "catalog" | "nads" | "networks">,
  pod: Pick<SnapshotPod, "creationTimestamp">,
  { network, nad }: { readonly network: string; readonly nad: string },
): boolean {
  const object = nads.get(nad);
  if (object?.generation === 1 && isBefore(object.creationTimestamp, pod.creationTimestamp)) return true;
  if (catalog.definitionOf(network)?.by !== nad) return false;
  const known = networkObjectOf(network, (name) => networks.get(name));
  const imported = known?.status?.conditions?.find(({ type }) => type === IMPORTED);
  return imported?.status === "True" && isBefore(imported.lastTransitionTime, pod.creationTimestamp);
}

/** False when one of them cannot be read. RFC 3339. */
const isBefore = (one: string | undefined, other: string | undefined): boolean =>
  parseTime(one ?? "") < parseTime(other ?? "");

import { type Address, formatAddress } from "../../ipam/address.ts";
import { parseInterfaceAddress } from "../../ipam/cidr.ts";
import type { ClaimView } from "../claim-view.ts";
import { statusAddresses } from "../held-addresses.ts";
import { claimsNamedBy } from "../network-selection.ts";
import { type PodView, projectPod } from "../pod-view.ts";
import type { ClaimFact, PodFact } from "./facts.ts";

/** What the controller keeps of a pod: what decides about addresses, read once when the pod changes. */
export interface SweptPod extends PodFact {
  /** `namespace/name` */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
  /** Claims of its namespace that its network selection names. */
  readonly claims: readonly string[];
}

/** Projects a pod object. Throws MalformedObjectError. */
export function projectSweptPod(object: unknown): SweptPod {
  return sweptPod(projectPod(object, { addresses: true }));
}

export function sweptPod(view: PodView): SweptPod {
  const { key, namespace, name, uid, resourceVersion, creationTimestamp, terminal, staticUid } = view;
  const { held, cut } = statusAddresses(view);
  return {
    key,
    namespace,
    name,
    uid,
    resourceVersion,
    creationTimestamp,
    terminal,
    staticUid,
    claims: claimsNamedBy(view.annotations, namespace),
    addresses: held.map(({ address }) => formatAddress(address)),
    addressesCut: cut,
  };
}

/** What a claim says about addresses. Entries that cannot be read count, and name no address. */
export function claimFact(view: ClaimView): ClaimFact {
  const addresses = view.ips.map(readAddress).filter((one) => one !== null);
  return {
    uid: view.uid,
    creationTimestamp: view.creationTimestamp,
    listedCount: view.ips.length,
    addresses: addresses.map(formatAddress),
  };
}

function readAddress(text: string): Address | null {
  try {
    return parseInterfaceAddress(text).address;
  } catch {
    return null;
  }
}

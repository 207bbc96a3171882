import type { IdentityView } from "./wire.ts";

/** Whom a request came from, in the words of the listener and never of the guest. */
export type IdentitySubject =
  /** The interface of a container of this node, on the network that it was attached to. */
  | {
      readonly kind: "attachment";
      readonly containerId: string;
      readonly interface: string;
      readonly network: string;
    }
  /** A pod of this node, by its UID, on a network whose addresses OVN-Kubernetes allocates. */
  | { readonly kind: "pod"; readonly uid: string; readonly network: string }
  /** Whoever uses the address (without mask) on the network, where only that is known. */
  | { readonly kind: "address"; readonly network: string; readonly address: string };

/** Finds the identity behind a subject now, never from old data: an address may have changed owners. */
export interface IdentitySource {
  /** The one VM, pod or container on this node now; null: none, or several. Rejects with IdentityAway. */
  find(subject: IdentitySubject): Promise<IdentityView | null>;
  close(): Promise<void>;
}

export class IdentityAway extends Error {
  override readonly name = "IdentityAway";
}

import type { IdentityView } from "./wire.ts";

/**
 * Finds the identity behind an address now, never from data that may be out of date: the address may have changed
 * owners.
 */
export interface IdentitySource {
  /**
   * The one VM, pod or container that uses the address (without mask) on this node now; null: none, or several. Rejects
   * with IdentityAway when the source cannot be reached.
   */
  find(network: string, address: string): Promise<IdentityView | null>;
  close(): Promise<void>;
}

export class IdentityAway extends Error {
  override readonly name = "IdentityAway";
}

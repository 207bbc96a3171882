import type { IdentityView } from "./wire.ts";

/** Who is behind an address now. Never answered from what may have changed since: the address may be somebody else's by now. */
export interface IdentitySource {
  /**
   * The one VM, pod or container that uses the address (without mask) on this node now; null: nobody, or not one alone.
   * Rejects with IdentityAway when nobody can be asked.
   */
  find(network: string, address: string): Promise<IdentityView | null>;
  close(): Promise<void>;
}

export class IdentityAway extends Error {
  override readonly name = "IdentityAway";
}

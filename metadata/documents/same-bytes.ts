import type { Buffer } from "node:buffer";
import { timingSafeEqual } from "node:crypto";

/** Are two byte strings equal, told in a time that depends on their lengths alone? */
export function sameBytes(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

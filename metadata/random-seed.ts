import { Buffer } from "node:buffer";
import { hkdfSync } from "node:crypto";

/** Nova's size. */
const SEED_BYTES = 512;

/**
 * The bytes that a guest stirs into its pool of randomness: HKDF (RFC 5869, SHA-512) of a secret of this server for this
 * instance at this time. Nobody without the secret can tell them, not even other guests; in base64.
 */
export function randomSeed(secret: Buffer, { uuid, nowMs }: { uuid: string; nowMs: number }): string {
  const info = `holdfast random seed\0${uuid}\0${nowMs}`;
  return Buffer.from(hkdfSync("sha512", secret, "", info, SEED_BYTES)).toString("base64");
}

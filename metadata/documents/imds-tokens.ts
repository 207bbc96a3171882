import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";
import { type Answer, sentence, textAnswer } from "./answer.ts";

/** Tokens of version 2 of Amazon's instance metadata service, without anything kept: a token carries its own proof. */
export interface TokenOptions {
  /**
   * off: no tokens are given, and a client that asks for one goes on without (403). optional: both kinds of client are
   * served. required: nothing but the version list is answered without token, on no tree: whatever sends a guest's own
   * programs to this server must not get at it by another path. Only guests with cloud-init's Ec2 source work then.
   */
  readonly tokens: "off" | "optional" | "required";
  /** HMAC keys of at least 32 bytes. The first signs; the others are still believed after a change of key. */
  readonly tokenKeys: readonly Buffer[];
}

export const TOKEN_HEADER = "x-aws-ec2-metadata-token";
export const TOKEN_TTL_HEADER = "x-aws-ec2-metadata-token-ttl-seconds";

/** Amazon's limit: six hours. */
const TTL_SECONDS_MAX = 21_600;

/** Form of a token: version, expiry in whole seconds since the epoch (6 bytes), HMAC-SHA256. */
const TOKEN_VERSION = 1;
const EXPIRY_BYTES = 6;
const MAC_BYTES = 32;
const TOKEN_BYTES = 1 + EXPIRY_BYTES + MAC_BYTES;
const TOKEN_CHARS = Math.ceil((TOKEN_BYTES * 4) / 3);

/**
 * PUT /latest/api/token; `ttl` is the header's value. 403 where the guest itself forwards (`clientForwarded`: by the
 * client's own header, not our listener's), as Amazon does against open proxies in a guest.
 */
export function tokenAnswer(
  request: { readonly ttl: string | undefined; readonly clientForwarded: boolean },
  uuid: string,
  { tokens, tokenKeys }: TokenOptions,
  nowMs: number,
): Answer {
  const [key] = tokenKeys;
  if (tokens === "off" || key === undefined) return sentence(403, "No tokens are given here.");
  if (request.clientForwarded) return sentence(403, "A token is not given to a forwarded request.");
  const { ttl } = request;
  if (ttl === undefined || !/^[1-9]\d{0,4}$/.test(ttl) || Number(ttl) > TTL_SECONDS_MAX) {
    return sentence(400, `Expected ${TOKEN_TTL_HEADER} from 1 to ${TTL_SECONDS_MAX}.`);
  }
  const given = textAnswer(makeToken(key, { uuid, expirySeconds: Math.floor(nowMs / 1_000) + Number(ttl) }));
  return { ...given, headers: { ...given.headers, [TOKEN_TTL_HEADER]: ttl } };
}

/** What stands against a request with this token header (undefined: none): 401, or null for nothing. */
export function tokenObjection(
  token: string | undefined,
  uuid: string,
  { tokens, tokenKeys }: TokenOptions,
  nowMs: number,
): Answer | null {
  if (tokens === "off") return null;
  if (token === undefined) {
    return tokens === "required" ? sentence(401, "A token is required: PUT /latest/api/token.") : null;
  }
  // Wrong tokens are refused even where none is needed: a client that uses them learns that it has to get a new one.
  return isToken(token, uuid, tokenKeys, nowMs) ? null : sentence(401, "The token is not valid, or no longer.");
}

/** A token of one instance, in base64url: `expirySeconds` is the first second at which it is no longer believed. */
export function makeToken(key: Buffer, { uuid, expirySeconds }: { uuid: string; expirySeconds: number }): string {
  const head = Buffer.alloc(1 + EXPIRY_BYTES);
  head[0] = TOKEN_VERSION;
  head.writeUIntBE(expirySeconds, 1, EXPIRY_BYTES);
  return Buffer.concat([head, tokenMac(key, head, uuid)]).toString("base64url");
}

function isToken(token: string, uuid: string, keys: readonly Buffer[], nowMs: number): boolean {
  if (token.length !== TOKEN_CHARS || !/^[\w-]+$/.test(token)) return false;
  const bytes = Buffer.from(token, "base64url");
  if (bytes.length !== TOKEN_BYTES || bytes[0] !== TOKEN_VERSION) return false;
  const head = bytes.subarray(0, 1 + EXPIRY_BYTES);
  const mac = bytes.subarray(1 + EXPIRY_BYTES);
  const known = keys.some((key) => sameBytes(mac, tokenMac(key, head, uuid)));
  return known && nowMs < head.readUIntBE(1, EXPIRY_BYTES) * 1_000;
}

function tokenMac(key: Buffer, head: Buffer, uuid: string): Buffer {
  // The label keeps apart what one key may be used for.
  return createHmac("sha256", key).update("holdfast imds token\0").update(head).update(uuid).digest();
}

/** Are two byte strings equal, told in a time that depends on their lengths alone? */
function sameBytes(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

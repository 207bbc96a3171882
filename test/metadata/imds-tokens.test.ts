import { Buffer } from "node:buffer";
import { describe, expect, test } from "vitest";
import { makeToken, TOKEN_HEADER, TOKEN_TTL_HEADER } from "../../metadata/documents/imds-tokens.ts";
import type { Instance } from "../../metadata/documents/instance.ts";
import { type MetadataOptions, respond } from "../../metadata/documents/route.ts";
import { get, instance, NOW_MS, OPTIONS, request } from "./instances.ts";

const PATH = "/latest/api/token";
const LEAF = "/latest/meta-data/instance-id";
const put = (ttl: string | string[] | undefined, given = {}) =>
  get(PATH, { method: "PUT", headers: { "X-aws-ec2-metadata-token-ttl-seconds": ttl }, ...given });
const REQUIRED = { ...OPTIONS, tokens: "required" } as const;

/** Status of a GET with a token, by default where one is required. */
function status(
  token: string | undefined,
  { path = LEAF, of = instance(), options = REQUIRED as MetadataOptions, nowMs = NOW_MS } = {},
): number {
  return respond(request(path, { headers: { [TOKEN_HEADER]: token } }), of, options, nowMs).status;
}

describe("PUT", () => {
  test("returns a token and its time to live", () => {
    const { status, headers, text } = put("60");
    expect([status, headers[TOKEN_TTL_HEADER]]).toEqual([200, "60"]);
    expect(text).toMatch(/^[\w-]{52}$/);
  });

  test.each<[string | string[] | undefined, number, string]>([
    ["1", 200, "the shortest"],
    ["21600", 200, "the longest"],
    ["0", 400, "too short"],
    ["21601", 400, "too long"],
    ["-1", 400, "not a number of seconds"],
    ["1.5", 400, "likewise"],
    ["060", 400, "read as octal by some"],
    ["", 400, "empty"],
    ["1e3", 400, "not plain digits"],
    [undefined, 400, "missing"],
    [["60", "60"], 400, "twice"],
    ["60, 60", 400, "twice, joined"],
  ])("a time to live of %j is %s: %s", (ttl, expected, _why) => {
    expect(put(ttl).status).toBe(expected);
  });

  test.each<[object, number, string]>([
    [{ clientForwarded: true }, 403, "an open proxy in the guest forwards"],
    [{ headers: { "X-Forwarded-For": "10.0.0.1", [TOKEN_TTL_HEADER]: "60" } }, 200, "our listener's own header"],
    [{ options: { tokens: "off" } }, 403, "switched off"],
    [{ options: { tokenKeys: [] } }, 403, "no key to sign with"],
    [{ of: null }, 404, "nobody is known there"],
  ])("with %j it is %s: %s", (given, expected, _why) => {
    expect(put("60", given).status).toBe(expected);
  });

  test.each(["GET", "HEAD", "POST", "DELETE"])("%s is 405", (method) => {
    expect(get(PATH, { method })).toMatchObject({ status: 405, headers: { allow: "PUT" } });
  });

  test.each([
    ["/2009-04-04/api/token", "only below latest, as at Amazon"],
    ["/ec2/latest/api/token", "and only at the root"],
  ])("%s is 405: %s", (path, _why) => {
    expect(get(path, { method: "PUT", headers: { [TOKEN_TTL_HEADER]: "60" } }).status).toBe(405);
  });
});

describe("where a token is required", () => {
  const token = put("60").text;

  test.each([
    [LEAF, 200, "as asked for"],
    ["/openstack/latest/meta_data.json", 200, "on every tree"],
    ["/nocloud/meta-data", 200, "on every tree"],
  ])("%s with it is %s: %s", (path, expected, _why) => {
    expect(status(token, { path })).toBe(expected);
  });

  test.each([
    "/latest/user-data",
    "/openstack",
    "/openstack/latest/user_data",
    "/nocloud/user-data",
    "/ec2",
    "/nothing",
  ])("%s without it is 401", (path) => {
    expect(status(undefined, { path })).toBe(401);
  });

  test("setting the password needs a token as well", () => {
    const path = "/openstack/latest/password";
    expect(get(path, { method: "POST", body: Buffer.from("x"), options: REQUIRED }).status).toBe(401);
  });

  test("a token expires on the second", () => {
    expect(status(token, { nowMs: NOW_MS + 59_999 })).toBe(200);
    expect(status(token, { nowMs: NOW_MS + 60_000 })).toBe(401);
  });

  const other: Instance = instance({ uuid: "00000000-0000-0000-0000-000000000001" });
  test("a token is valid for its instance only", () => {
    expect(status(token, { of: other })).toBe(401);
  });

  test("a token of a former key is valid while that key is listed", () => {
    const [old] = OPTIONS.tokenKeys as [Buffer];
    const fresh = Buffer.alloc(32, 9);
    expect(status(token, { options: { ...REQUIRED, tokenKeys: [fresh, old] } })).toBe(200);
    expect(status(token, { options: { ...REQUIRED, tokenKeys: [fresh] } })).toBe(401);
  });

  const expirySeconds = NOW_MS / 1_000 + 60;
  const right = makeToken(OPTIONS.tokenKeys[0] as Buffer, { uuid: instance().uuid, expirySeconds });
  test.each([
    ["", "empty"],
    ["x", "too short"],
    [`${right}A`, "too long"],
    [right.slice(1), "cut off"],
    [`${right}, ${right}`, "twice"],
    [right.toUpperCase(), "another text"],
    [`${right.slice(0, -1)}=`, "padding"],
    ["\u0100".repeat(52), "not ASCII"],
    [makeToken(Buffer.alloc(32, 8), { uuid: instance().uuid, expirySeconds }), "of another key"],
  ])("%j is 401: %s", (wrong, _why) => {
    expect(right).toBe(token);
    expect(status(wrong)).toBe(401);
  });

  test("a token with any bit changed is invalid", () => {
    const bytes = Buffer.from(right, "base64url");
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes);
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(status(changed.toString("base64url"))).toBe(401);
    }
  });
});

describe("elsewhere", () => {
  test.each<[MetadataOptions["tokens"], string | undefined, number, string]>([
    ["optional", undefined, 200, "both kinds of client"],
    ["optional", "wrong", 401, "a client that uses tokens learns that it needs a new one"],
    ["off", "wrong", 200, "the header means nothing"],
    ["off", undefined, 200, "as Nova"],
  ])("%s, token %s: %s, %s", (tokens, token, expected, _why) => {
    expect(status(token, { options: { ...OPTIONS, tokens } })).toBe(expected);
  });
});

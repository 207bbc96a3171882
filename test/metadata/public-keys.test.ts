import { Buffer } from "node:buffer";
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { readContent } from "../../metadata/tenant/content.ts";
import { publicKey } from "./key-pairs.ts";

const REASON = "MetadataPublicKeysUnavailable";
const ALICE = publicKey("ssh-ed25519", "alice@desk");
const BOB = publicKey("ssh-rsa", "bob@desk");

/** What a guest gets of a Secret, and what the events say. */
function read(values: Readonly<Record<string, string | Buffer>>, annotation = "secret/team") {
  const data = new Map(Object.entries(values).map(([key, value]) => [key, Buffer.from(value)]));
  const annotations = new Map([["metadata.holdfast.dev/public-keys", annotation]]);
  const { publicKeys, problems } = readContent([annotations], { find: () => ({ data }) });
  return { keys: publicKeys.map(({ name, data: line }) => `${name}=${line}`), problems };
}

describe("a line is a public key", () => {
  test.each([
    ["of each type", publicKey("ecdsa-sha2-nistp256", "")],
    ["of a token", publicKey("sk-ssh-ed25519@openssh.com", "token")],
    ["a certificate", publicKey("ssh-ed25519-cert-v01@openssh.com", "of a CA")],
    ["without comment", publicKey("ssh-ed25519", "")],
    ["with options", `no-pty,from="10.0.0.0/8" ${ALICE}`],
    ["with spaces and quotes in its options", `command="echo \\"ssh-rsa AAAA\\" b",no-pty ${ALICE}`],
    ["with tabs", ALICE.replaceAll(" ", "\t")],
  ])("%s", (_why, line) => {
    expect(read({ it: `# a comment\n\n  ${line}\r\n` })).toEqual({ keys: [`it=${line}`], problems: [] });
  });

  test.each([
    ["another type than its base64 says", ALICE.replace("ssh-ed25519", "ssh-rsa")],
    ["a type alone", "ssh-ed25519"],
    ["no base64", "ssh-ed25519 hello alice"],
    ["base64 of nothing but the type", "ssh-rsa AAAAB3NzaC1yc2E= bob"],
    ["base64 without type", String(ALICE.split(" ")[1])],
    ["a quote that does not end", `command="x ${ALICE}`],
    ["two options apart", `no-pty no-x11-forwarding ${ALICE}`],
    ["a password", "hunter2 is secret"],
    ["base64 with something else in it", ALICE.replace("AAAA", "AA-A")],
  ])("not with %s", (_why, line) => {
    const { keys, problems } = read({ it: `${line}\n${BOB}` });
    expect(keys).toEqual([`it=${BOB}`]);
    expect(problems).toMatchObject([{ reason: REASON }]);
    expect(problems[0]?.message).toContain("Secret team: key it is no public key in line 1; expected a line as");
    expect(problems[0]?.message).not.toContain(line);
  });
});

const ed25519 = generateKeyPairSync("ed25519").privateKey;
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
const encrypted = { type: "pkcs8", format: "pem", cipher: "aes-128-cbc", passphrase: "p" } as const;
const [, BLOB = ""] = ALICE.split(" ");
const folded = BLOB.replaceAll(/(.{20})/g, "$1\n");

/** Values that are no public keys, as people have them beside one. `private`: of a private key. */
const OTHERS = [
  ["PKCS #8", ed25519.export({ type: "pkcs8", format: "pem" }), "private"],
  ["an encrypted one", ed25519.export(encrypted), "private"],
  ["SEC 1", ec.export({ type: "sec1", format: "pem" }), "private"],
  ["OpenSSH's", `-----BEGIN OPENSSH PRIVATE KEY-----\n${folded}\n-----END OPENSSH PRIVATE KEY-----\n`, "private"],
  ["a private key before a public one", `-----BEGIN RSA PRIVATE KEY-----\nAAAA\n${ALICE}\n`, "private"],
  ["a private key in a comment", `# -----BEGIN PRIVATE KEY-----\n${ALICE}\n`, "private"],
  [
    "PuTTY's",
    `PuTTY-User-Key-File-3: ssh-ed25519\nComment: a\nPublic-Lines: 2\n${folded}\nPrivate-Lines: 1\nAAAA\n`,
    "",
  ],
  ["RFC 4716", `---- BEGIN SSH2 PUBLIC KEY ----\nComment: "alice"\n${folded}\n---- END SSH2 PUBLIC KEY ----\n`, ""],
  ["a base64 body alone", folded, ""],
  ["bytes", Buffer.from([0xff, 0xfe, 0x00]), ""],
  ["nothing", "\n", ""],
] as const;

describe("of a Secret with a public key and something else the guest gets the public key alone", () => {
  test.each(OTHERS)("%s", (_why, value, kind) => {
    // The name decides nothing, also not which is first.
    for (const name of ["a", "z"]) {
      const { keys, problems } = read({ [name]: value, "id.pub": ALICE });
      expect(keys).toEqual([`id.pub=${ALICE}`]);
      expect(problems).toMatchObject([{ reason: REASON }]);
      const [{ message } = { message: "" }] = problems;
      expect(message).toContain(`Secret team: key ${name} `);
      expect(message).toContain("name the key that has them: secret/team/<key>");
      expect(message).toContain("The guest gets the public keys alone.");
      if (kind === "private") expect(message).toContain("has a private key in it");
    }
  });

  test("the first value that is none is named, once", () => {
    const { problems } = read({ c: "c", b: Buffer.from([0xff]), a: ALICE, d: "PRIVATE KEY" });
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).toContain("Secret team: key b is no UTF-8 text");
  });

  test("a key that the annotation names is judged alone", () => {
    const pair = { "ssh-privatekey": OTHERS[3][1], "ssh-publickey": ALICE };
    expect(read(pair, "secret/team/ssh-publickey")).toEqual({
      keys: [`ssh-publickey=${ALICE}`],
      problems: [],
    });
    const { keys, problems } = read(pair, "secret/team/ssh-privatekey");
    expect([keys, problems.length]).toEqual([[], 1]);
    expect(problems[0]?.message).not.toContain("<key>");
  });

  test("a value of many lines that are none is read in time that grows with them", () => {
    const { keys } = read({ a: "x\n".repeat(500_000), b: ALICE });
    expect(keys).toEqual([`b=${ALICE}`]);
  });
});

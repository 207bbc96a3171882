import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type HeaderLine, strippedHeaders } from "../../guests/haproxy/client-headers.ts";
import { identityHeaders } from "../../metadata/proxy/signature.ts";

const ours = Object.keys(
  identityHeaders({ instanceId: "i", tenantId: "t", network: "n", source: { family: 4, value: 1n } }, Buffer.from("s")),
);

describe("headers that are never passed on", () => {
  test.each([
    ...ours.map((name) => [name, "we set it"]),
    ["X-Neutron-Router-ID", "the other identity of Neutron's"],
    ["X-OVN-Network-ID", "the OVN agent's"],
    ["X-Metadata-Provider", "switches Nova to another way of telling who asks"],
    ["X-Metadata-Provider-Signature", "with it"],
    ["X-Real-IP", "an address to some servers"],
    ["X-Forwarded-Host", "a host to some"],
    ["X-Forwarded-Proto", "likewise"],
    ["Forwarded", "RFC 7239"],
    ["Client-IP", "CGI knows it as HTTP_CLIENT_IP"],
    ["X-HTTP-Method-Override", "another method than the one judged"],
    ["X-Original-URL", "another path"],
    ["Connection", "of the connection"],
    ["Keep-Alive", "likewise"],
    ["Proxy-Authorization", "likewise"],
    ["TE", "likewise"],
    ["Trailer", "likewise"],
    ["Transfer-Encoding", "the body is sent anew"],
    ["Content-Length", "likewise"],
    ["Upgrade", "likewise"],
    ["Host", "the backend has its own"],
    ["Expect", "answered by us"],
  ])("%s: %s", (name, _why) => {
    for (const spelling of spellings(name)) {
      expect(strippedHeaders([[spelling, "evil"]])).toEqual([]);
    }
  });

  test("headers that Connection names are not passed on", () => {
    const lines: HeaderLine[] = [
      ["Connection", "close, X-Private"],
      ["connection", "Also_Private"],
      ["X-Private", "1"],
      ["also-private", "2"],
      ["Accept", "*/*"],
    ];
    expect(strippedHeaders(lines)).toEqual([["Accept", "*/*"]]);
  });

  test.each<[HeaderLine, string]>([
    [["X-A\r\nX-Instance-ID", "1"], "a line break in a name"],
    [["X-A", "1\r\nX-Instance-ID: 2"], "or in a value"],
    [["X-A", "1\0"], "NUL"],
    [["X-Instance-ID ", "1"], "a space at the end, which some servers cut off"],
    [["", "1"], "no name"],
    [["X Instance ID", "1"], "spaces"],
  ])("%j: %s", (line, _why) => {
    expect(strippedHeaders([line])).toEqual([]);
  });
});

test.each([
  ["X-aws-ec2-metadata-token", "a backend may give tokens"],
  ["X-aws-ec2-metadata-token-ttl-seconds", "likewise"],
  ["Content-Type", "of the body"],
  ["Accept", "plain"],
  ["User-Agent", "plain"],
  ["Range", "plain"],
])("%s is passed on, repeated as it was: %s", (name, _why) => {
  const lines: HeaderLine[] = [
    [name, "a"],
    [name.toLowerCase(), "b"],
  ];
  expect(strippedHeaders(lines)).toEqual(lines);
});

test("no header that is passed on can be taken for one of ours by a server that folds names", () => {
  const folded = (name: string) => name.toUpperCase().replaceAll(/[^A-Z0-9]/g, "_");
  const forbidden = new Set(ours.map(folded));
  const anyName = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc
      .tuple(fc.constantFrom(...ours), fc.array(fc.tuple(fc.nat(30), fc.string({ maxLength: 1 }))))
      .map(([name, edits]) =>
        edits.reduce((text, [at, by]) => text.slice(0, at) + by + text.slice(at + by.length), name),
      ),
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(anyName, fc.string())), (lines) => {
      for (const [name] of strippedHeaders(lines)) expect(forbidden.has(folded(name))).toBe(false);
    }),
    { numRuns: 500 },
  );
});

function spellings(name: string): string[] {
  const forms = [name, name.toLowerCase(), name.toUpperCase(), name.replaceAll("-", "_")];
  return [...forms, name.replace("-", "_"), name.toLowerCase().replaceAll("-", "_")];
}

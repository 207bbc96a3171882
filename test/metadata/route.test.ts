import { Buffer } from "node:buffer";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Instance } from "../../metadata/documents/instance.ts";
import { respond } from "../../metadata/documents/route.ts";
import { BARE, get, instance, NOW_MS, OPTIONS } from "./instances.ts";

const HOSTNAME = get("/latest/meta-data/hostname").text;

describe("paths of different spellings", () => {
  test.each([
    ["/latest/meta-data/hostname/", "a slash at the end"],
    ["//latest///meta-data//hostname", "slashes"],
    ["/./latest/./meta-data/hostname/.", "dots"],
    ["/openstack/../latest/meta-data/x/../hostname", "up and down"],
    ["/../../../latest/meta-data/hostname", "above the root is the root"],
    ["/latest/meta%2Ddata/host%6eame", "escapes"],
    ["/latest%2Fmeta-data%2fhostname", "an escaped slash is a slash, as for WSGI servers"],
    ["/x/%2e%2E/latest/meta-data/hostname", "escaped dots"],
    ["/latest/meta-data/hostname?recursive=true&a=/../", "a query"],
    ["/latest/meta-data/hostname#part", "a fragment"],
    ["http://169.254.169.254/latest/meta-data/hostname", "absolute form"],
    ["HTTP://evil.example:80/latest/meta-data/hostname?x", "of whatever host"],
    ["https://u:p@evil.example//latest/meta-data/hostname", "or scheme"],
  ])("%s: %s", (target, _why) => {
    expect(get(target)).toMatchObject({ status: 200, text: HOSTNAME });
  });
});

test.each([
  ["", 400, "no path"],
  ["*", 400, "of the server"],
  ["latest/meta-data", 400, "not from the root"],
  ["ftp://169.254.169.254/latest", 400, "not HTTP"],
  ["evil.example:443", 400, "authority form"],
  ["/latest/%", 400, "half an escape"],
  ["/latest/%zz", 400, "no escape"],
  ["/latest/%ff", 400, "not UTF-8"],
  ["/latest/%c0%af", 400, "an overlong slash"],
  ["/latest/%00", 400, "NUL"],
  ["/latest/%0d%0aX:y", 400, "a line break"],
  ["/latest/meta-data/%252e%252e", 404, "decoded once only"],
  ["/latest/meta-data\\hostname", 404, "a backslash is a character"],
  [`/${"a".repeat(2_048)}`, 414, "too long"],
  [`/${"../".repeat(600)}latest`, 200, "long, but not too long"],
  ["http://169.254.169.254", 200, "the root of the absolute form"],
  ["http://169.254.169.254?x", 200, "likewise"],
])("%j is %s: %s", (target, status, _why) => {
  expect(get(target).status).toBe(status);
});

describe("methods", () => {
  test.each([
    ["/", "GET, HEAD"],
    ["/latest", "GET, HEAD"],
    ["/openstack/latest/meta_data.json", "GET, HEAD"],
    ["/nocloud/user-data", "GET, HEAD"],
    ["/nothing", "GET, HEAD"],
    ["/latest/api/token", "PUT"],
  ])("%s allows %s", (path, allow) => {
    for (const method of ["POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "", "PROPFIND"]) {
      expect(get(path, { method })).toMatchObject({ status: 405, headers: { allow } });
    }
  });

  test.each([
    "/",
    "/latest/user-data",
    "/openstack/latest/network_data.json",
    "/nothing",
    "/openstack/latest/password",
  ])("HEAD %s has the headers of GET and no body", (path) => {
    const head = get(path, { method: "HEAD" });
    const got = get(path);
    expect(head.body).toHaveLength(0);
    expect([head.status, head.headers]).toEqual([got.status, got.headers]);
  });
});

describe("requests from an unknown source", () => {
  test.each([
    ["/", 200, "needs no identity"],
    ["/latest", 404, "does"],
    ["/openstack", 404, "does"],
    ["/nocloud/user-data", 404, "does"],
    ["/nothing", 404, "does"],
  ])("%s is answered with %s: it %s", (path, status, _why) => {
    expect(get(path, { of: null }).status).toBe(status);
  });
});

test("identity headers of the client change nothing", () => {
  const headers = {
    "X-Instance-ID": "another",
    X_Instance_ID: "another",
    "X-Forwarded-For": ["10.9.9.9", "10.9.9.8"],
    Host: ["a", "b"],
  };
  expect(get("/openstack/latest/meta_data.json", { headers })).toEqual(get("/openstack/latest/meta_data.json"));
});

describe("any request", () => {
  const word = fc.constantFrom(
    "latest",
    "openstack",
    "ec2",
    "nocloud",
    "meta-data",
    "meta_data.json",
    "network_data.json",
    "password",
    "public-keys",
    "0",
    "2009-04-04",
    "2013-04-04",
    "api",
    "token",
    "dynamic",
    "instance-identity",
    "..",
    ".",
    "%2e%2e",
    "%2f",
    "%",
    "__proto__",
    "constructor",
    "",
  );
  const anything = fc.string({ unit: "binary", maxLength: 60 });
  const target = fc.oneof(
    fc.array(fc.oneof(word, word, anything), { maxLength: 6 }).map((words) => `/${words.join("/")}`),
    anything,
    fc.webUrl(),
  );
  const anyRequest = fc.record(
    {
      method: fc.oneof(fc.constantFrom("GET", "HEAD", "PUT", "POST", "DELETE"), anything),
      target,
      headers: fc.dictionary(
        fc.oneof(
          fc.constantFrom("x-aws-ec2-metadata-token", "X-AWS-EC2-Metadata-Token-TTL-Seconds", "__proto__"),
          anything,
        ),
        fc.oneof(anything, fc.constant("60"), fc.array(anything), fc.constant(undefined)),
      ),
      body: fc.uint8Array({ maxLength: 1_100 }).map((bytes) => Buffer.from(bytes)),
      clientForwarded: fc.boolean(),
    },
    { requiredKeys: ["method", "target", "headers", "clientForwarded"] },
  );
  const anyInstance: fc.Arbitrary<Instance | null> = fc.oneof(
    fc.constantFrom(instance(), BARE, null),
    fc
      .record({
        hostname: anything,
        name: anything,
        meta: fc.dictionary(anything, anything),
        publicKeys: fc.array(fc.record({ name: anything, data: anything })),
        vendorData: fc.option(anything),
        rootDevice: fc.option(anything),
      })
      .map(instance),
  );

  test("has a well-formed answer", () => {
    fc.assert(
      fc.property(anyRequest, anyInstance, fc.constantFrom("off", "optional", "required"), (request, of, tokens) => {
        const answer = respond(request, of, { ...OPTIONS, tokens }, NOW_MS);
        expect([200, 400, 401, 403, 404, 405, 409, 414]).toContain(answer.status);
        for (const [name, value] of Object.entries(answer.headers)) {
          expect(name).toMatch(/^[a-z0-9-]+$/);
          expect(value).toMatch(/^[\x20-\x7e]+$/);
        }
        if (request.method === "HEAD") expect(answer.body).toHaveLength(0);
        else expect(answer.headers["content-length"]).toBe(String(answer.body.length));
        if (answer.effect) expect([request.method, answer.status]).toEqual(["POST", 200]);
      }),
      { numRuns: 3_000 },
    );
  });
});

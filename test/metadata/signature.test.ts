import { Buffer } from "node:buffer";
import { expect, test } from "vitest";
import { parseAddress } from "../../ipam/space/address.ts";
import { identityHeaders, signInstanceId } from "../../metadata/proxy/signature.ts";

/** Made with Python's hmac module, as Nova does. */
const VECTORS = [
  [
    "secret",
    "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11",
    "afbad0f69f0638d70847c8f44bcdb7465a2fc7a508eff65ef1890e1339b5bef3",
  ],
  ["", "a-b-c-d", "d98d0dd53b026a24df2c06b464ffa5dadb922ae41af7bd3ecc3cae75aef65771"],
  ["testing1234", "edge-x", "5d37735f52821318eb7c6413329c6b25932b030930bda5e83593563ab833c23d"],
] as const;

test.each(VECTORS)("secret %j, instance %s", (secret, id, signature) => {
  expect(signInstanceId(Buffer.from(secret), id)).toBe(signature);
});

const WHO = {
  instanceId: VECTORS[0][1],
  tenantId: "t-1",
  network: "ns_blue",
  source: parseAddress("192.168.10.5"),
};

test("the headers that a backend gets", () => {
  expect(identityHeaders(WHO, Buffer.from("secret"))).toEqual({
    "X-Instance-ID": WHO.instanceId,
    "X-Instance-ID-Signature": VECTORS[0][2],
    "X-Tenant-ID": "t-1",
    "X-Forwarded-For": "192.168.10.5",
    "X-Neutron-Network-ID": "ns_blue",
    "X-OVN-Network-ID": "ns_blue",
  });
  expect(identityHeaders(WHO, null)).not.toHaveProperty("X-Instance-ID-Signature");
});

test.each([
  [{ tenantId: "a\r\nX-Instance-ID: b" }, "a line of its own"],
  [{ tenantId: "a, b" }, "two values to a receiver that splits"],
  [{ tenantId: "" }, "none, and Nova asks for one"],
  [{ network: "n\u00e4t" }, "read in different ways"],
])("%j is an error of the caller: %s", (wrong, _why) => {
  expect(() => identityHeaders({ ...WHO, ...wrong }, null)).toThrow(TypeError);
});

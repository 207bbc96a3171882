import { expect, test } from "vitest";
import { AddConfigs } from "../../cni/request.ts";
import { network } from "./fixtures.ts";

/** What a configuration says of its network is read once, whatever a runtime writes into it for one container. */

const IPAM = {
  subnets: "10.10.0.0/24",
  reservations: [{ mac: "02:00:00:00:00:0a", ips: ["10.10.0.50"] }],
};
const plain = network("blue", IPAM);

const PER_CONTAINER: [string, object][] = [
  ["runtimeConfig.mac", { runtimeConfig: { mac: "02:00:00:00:00:0b" } }],
  ["runtimeConfig.ips", { runtimeConfig: { ips: ["10.10.0.77"] } }],
  ["args.cni", { args: { cni: { ips: ["10.10.0.77"] } } }],
  ["prevResult", { prevResult: { cniVersion: "1.0.0", ips: [] } }],
];

test.for(PER_CONTAINER)("with %s it is the same definition", ([, more]) => {
  const configs = new AddConfigs();
  const { definition } = configs.read(JSON.stringify(plain));
  const other = configs.read(JSON.stringify({ ...plain, ...more }));
  expect(other.definition).toBe(definition);
  expect(other.conf).toEqual({ ...plain, ...more });
  expect(configs.read(JSON.stringify(plain)).conf).toEqual(plain);
});

test("ranges that a runtime writes are the network's, beside what is one container's", () => {
  const configs = new AddConfigs();
  const bare = { ...plain, ipam: { type: "holdfast-ipam" } };
  const withRanges = (subnet: string, mac: string) =>
    configs.read(JSON.stringify({ ...bare, runtimeConfig: { mac, ipRanges: [[{ subnet }]] } })).definition;
  const first = withRanges("10.20.0.0/24", "02:00:00:00:00:0a");
  expect(withRanges("10.20.0.0/24", "02:00:00:00:00:0b")).toBe(first);
  expect(withRanges("10.21.0.0/24", "02:00:00:00:00:0a").fingerprint).not.toBe(first.fingerprint);
});

test("one that cannot be read is refused each time, with its key", () => {
  const configs = new AddConfigs();
  const wrong = JSON.stringify({ ...network("blue", { subnets: "10.10.0.0/99" }), args: { cni: {} } });
  for (const _ of [1, 2]) expect(() => configs.read(wrong)).toThrow(/ipam.subnets/);
});

test("a number that is too large is none that was not given, also where one without it is known", () => {
  const configs = new AddConfigs();
  const withCooldown = (cooldownSeconds: string) =>
    JSON.stringify({ ...network("blue", { ...IPAM, cooldownSeconds: "HERE" }), args: { cni: {} } }).replace(
      '"HERE"',
      cooldownSeconds,
    );
  configs.read(withCooldown("null"));
  expect(() => configs.read(withCooldown("1e999"))).toThrow(/ipam.cooldownSeconds/);
});

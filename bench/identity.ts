import { rmSync } from "node:fs";
import { buildIdentityService } from "../daemon/build-identity.ts";
import type { IdentityService } from "../identity/service.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../ipam/definition/plugin-config.ts";
import { type Address, formatAddress, parseAddress } from "../ipam/space/address.ts";
import { ResolverFiles } from "../platform/resolv-conf.ts";
import { systemClock } from "../platform/time.ts";
import { SqliteStore } from "../store/standalone/standalone-store.ts";
import { atMost, type Line, type Measurement, number, told } from "./line.ts";
import { median, quantile } from "./statistics.ts";
import { newDirectory } from "./workbench.ts";

const WARM_UP = 5_000;
const LOOK_UPS = 50_000;
const LOOK_UP_US_MAX = 50;
/** Containers on the node, each with an interface on a network. */
const CONTAINERS = [100, 10_000];
const NETWORK = "blue";
const CONFIG = JSON.stringify({
  cniVersion: "1.0.0",
  name: NETWORK,
  type: "bridge",
  allowPersistentIPs: true,
  ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/8,fd00::/64", gateway: "10.0.0.1" },
});

/** Who is behind an address, as the metadata server asks it, in the process of the daemon: without socket and HTTP. */
export const identity: Measurement = async () => {
  const lines: Line[] = [];
  for (const count of CONTAINERS) lines.push(...(await withContainers(count)));
  return lines;
};

async function withContainers(count: number): Promise<Line[]> {
  const directory = newDirectory();
  const context = { clock: systemClock, node: "bench", bootId: "boot", namespaceGone: () => false };
  const store = new SqliteStore(directory, context, { info: () => {}, error: () => {} });
  try {
    await store.open();
    const addresses = await attach(store, count);
    const ports = {
      enabled: true,
      here: (definition: NetworkDefinition) => definition,
      leadsToMetadata: () => false,
      isNeverServed: () => false,
    };
    const files = new ResolverFiles({ paths: [], refused: false, clock: systemClock });
    const service = buildIdentityService(store, ports, files, () => null);
    const us = await lookUps(service, addresses);
    const against = `${number(LOOK_UPS)} look-ups in random order after ${number(WARM_UP)}, each a VM with a claim and two addresses`;
    const what = `identity of a local address among ${number(count)} attachments`;
    return [
      atMost(median(us), LOOK_UP_US_MAX, "µs", { what: `${what}, median`, against }),
      told(`${number(quantile(us, 0.99))} µs`, { what: "the same, p99", against }),
    ];
  } finally {
    store.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** VMs with a claim each; one address of every one. */
async function attach(store: SqliteStore, count: number): Promise<Address[]> {
  const definition = parsePluginConfig(JSON.parse(CONFIG));
  const one = async (index: number) => {
    const name = `vm${index}.blue`;
    const vm = { name: `vm${index}`, uid: `vm-uid-${index}` };
    const manifest = { metadata: { annotations: {} }, spec: { network: NETWORK, interface: "" } };
    await store.applyClaim({ namespace: "default", name, network: NETWORK, manifest, vm, ips: [] });
    const outcome = await store.attach({
      network: NETWORK,
      definition,
      definitionSource: CONFIG,
      containerId: `container-${index}`,
      interface: "net1",
      stamp: { bootId: "boot", us: index },
      netns: { path: `/run/netns/c${index}`, id: "", witnessed: false },
      pod: { namespace: "default", name: `virt-launcher-${index}`, uid: `pod-uid-${index}` },
      claim: { namespace: "default", name },
      requested: [],
      onePerFamily: false,
    });
    if (outcome.kind !== "attached") throw new Error(outcome.refusal.message);
    return parseAddress(outcome.attachment.ips[index % 2]?.address.split("/")[0] ?? "");
  };
  const addresses: Address[] = [];
  for (let from = 0; from < count; from += 256) {
    const batch = Array.from({ length: Math.min(256, count - from) }, (_, index) => one(from + index));
    addresses.push(...(await Promise.all(batch)));
  }
  return addresses;
}

async function lookUps(service: IdentityService, addresses: readonly Address[]): Promise<number[]> {
  const us: number[] = [];
  for (let count = 0; count < WARM_UP + LOOK_UPS; count += 1) {
    const address = addresses[Math.floor(Math.random() * addresses.length)] as Address;
    const startMs = performance.now();
    const { identity: found } = await service.answer({
      question: { kind: "address", address, network: NETWORK },
      here: true,
    });
    const tookUs = (performance.now() - startMs) * 1_000;
    if (found.vm === null) throw new Error(`nobody is behind ${formatAddress(address)}`);
    if (count >= WARM_UP) us.push(tookUs);
  }
  return us;
}

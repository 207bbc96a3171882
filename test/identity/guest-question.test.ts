/**
 * Who is behind a port of this node: the question of a metadata server whose listener knows the port, not an address.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LocalVms, PodInterfaces } from "../../identity/allocation-source.ts";
import { type IdentityQuery, readIdentityQuery } from "../../identity/query.ts";
import { IdentityService } from "../../identity/service.ts";
import { StandaloneIdentities } from "../../identity/sources/standalone.ts";
import type { IdentityAnswer, IdentityInterface } from "../../identity/wire.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { NO_FACTS } from "./no-facts.ts";
import { PodStore } from "./pod-store.ts";

const NO_VMS: LocalVms = {
  known: () => null,
  learn: async () => {},
  knownOf: () => null,
  learnOf: async () => {},
  nameOf: () => null,
};
const OVN: IdentityInterface = {
  network: "shop_red",
  interface: "ovn-udn1",
  owner: { kind: "pod", uid: "uid-c1", interface: "ovn-udn1", namespace: "shop", name: "launcher-c1" },
  claim: null,
  addresses: [{ address: "10.99.0.5/16" }],
  mac: null,
  mtu: null,
  routes: [],
  dns: {},
  metadata: { address: "169.254.169.254", tokens: "optional" },
  source: "ovn-kubernetes",
};

let pods: PodStore;

beforeEach(async () => {
  pods = new PodStore({ subnets: "10.10.0.0/24", cooldownSeconds: 0 });
  await pods.store.open();
  for (const id of ["c1", "c2"]) expect((await pods.add(id)).kind).toBe("attached");
});
afterEach(() => pods.close());

/** Another component that gave the pod of c1, and a pod without addresses of ours, an interface each. */
const others: PodInterfaces = {
  podOn: (uid, network) =>
    network === "shop_red" && (uid === "uid-c1" || uid === "uid-alone")
      ? { namespace: "shop", name: uid.slice(4), uid, node: "node-a", since: "2026-01-01T00:00:00Z" }
      : null,
  of: ({ uid }) => (uid === "uid-c1" || uid === "uid-alone" ? [OVN] : []),
};

function ask(query: Record<string, string>, vms: Partial<LocalVms> = {}): Promise<IdentityAnswer> {
  const source = new StandaloneIdentities(pods.store, NO_FACTS);
  const service = new IdentityService({
    store: pods.store,
    source,
    vms: { ...NO_VMS, ...vms },
    facts: NO_FACTS,
    others: [others],
    notReady: () => null,
  });
  return service.answer(readIdentityQuery(query));
}

async function refusal(query: Record<string, string>): Promise<string> {
  try {
    await ask(query);
  } catch (error) {
    if (error instanceof RefusalError) return `${error.refusal.code} ${error.refusal.message}`;
    throw error;
  }
  return "answered";
}

const C1 = { container: "c1", interface: "eth0", network: "blue", here: "true" };
const POD = { "pod-uid": "uid-c1", network: "shop_red", here: "true" };

describe("an attachment", () => {
  test("is answered with its container and its recorded address", async () => {
    const { network, identity } = await ask(C1);
    expect(network).toBe("blue");
    expect(identity.pods).toMatchObject([{ containerID: "c1", uid: "uid-c1" }]);
    expect(identity.interfaces[0]).toMatchObject({
      network: "blue",
      interface: "eth0",
      addresses: [{ address: "10.10.0.1/24" }],
    });
  });

  test("is answered with what other components gave its pod beside it", async () => {
    const { identity } = await ask(C1);
    expect(identity.interfaces.map(({ source, network }) => [source, network])).toEqual([
      ["holdfast", "blue"],
      ["ovn-kubernetes", "shop_red"],
    ]);
    expect((await ask({ ...C1, container: "c2" })).identity.interfaces).toHaveLength(1);
  });

  test("of a container whose ID another pod's had before is answered with its own pod alone", async () => {
    expect((await pods.add("c1", { pod: "later", interface: "eth1" })).kind).toBe("attached");
    for (const [name, uid] of [
      ["eth0", "uid-c1"],
      ["eth1", "uid-later"],
    ] as const) {
      const { identity } = await ask({ ...C1, interface: name });
      expect(identity).toMatchObject({ state: "running", pods: [{ containerID: "c1", uid }] });
      const [held] = identity.interfaces;
      const address = held?.addresses[0]?.address.split("/")[0] ?? "";
      expect((await ask({ address, network: "blue", here: "true" })).identity).toEqual(identity);
    }
  });

  test.for<[string, Record<string, string>]>([
    ["another interface", { interface: "eth1" }],
    ["another network", { network: "red" }],
    ["another container", { container: "c3" }],
  ])("that does not exist is not found: %s", async ([, more]) => {
    expect(await refusal({ ...C1, ...more })).toMatch(/^NOT_FOUND .*on network/);
  });

  test("that ended, or has lost its address, is not found", async () => {
    await pods.loseFirst();
    expect(await refusal(C1)).toMatch(/^NOT_FOUND /);
    await pods.del("c2");
    expect(await refusal({ ...C1, container: "c2" })).toMatch(/^NOT_FOUND /);
  });
});

describe("a pod by its UID", () => {
  test("is answered with the interfaces of both components in one view", async () => {
    const { network, identity } = await ask(POD);
    expect(network).toBe("shop_red");
    expect(identity.interfaces.map(({ network: name }) => name)).toEqual(["blue", "shop_red"]);
    expect(identity.state).toBe("running");
  });

  test("is answered where it has no address of ours, with the VM that it runs", async () => {
    const vm = { namespace: "shop", name: "vm1", uid: "u", vmiUid: "v", firmwareUuid: null };
    let known = false;
    const vms: Partial<LocalVms> = {
      knownOf: () => (known ? vm : undefined),
      learnOf: async () => {
        known = true;
      },
    };
    const { identity } = await ask({ ...POD, "pod-uid": "uid-alone" }, vms);
    expect(identity).toMatchObject({
      vm,
      pods: [{ uid: "uid-alone", node: "node-a" }],
      interfaces: [{ network: "shop_red" }],
    });
  });

  test.for<[string, Record<string, string>]>([
    ["no running pod has it", { "pod-uid": "uid-c2" }],
    ["it is on another network", { network: "blue" }],
  ])("is not found where %s", async ([, more]) => {
    expect(await refusal({ ...POD, ...more })).toMatch(/^NOT_FOUND there is no running pod with UID/);
  });
});

describe("the question", () => {
  test.for<[Record<string, string>, string]>([
    [{ container: "c1", interface: "eth0", network: "blue" }, "here"],
    [{ container: "c1", interface: "eth0", network: "blue", here: "false" }, "here"],
    [{ container: "c1", interface: "eth0", here: "true" }, "network"],
    [{ container: "c1", interface: "", network: "blue", here: "true" }, "interface"],
    [{ "pod-uid": "u", network: "blue" }, "here"],
    [{ "pod-uid": "u", here: "true" }, "network"],
    [{ "pod-uid": "", network: "blue", here: "true" }, "pod-uid"],
    [{ "pod-uid": "u", network: "blue", interface: "eth0", here: "true" }, "interface"],
    [{ address: "10.0.0.1", interface: "eth0" }, "interface"],
    [{ container: "c1", "pod-uid": "u", network: "blue", here: "true" }, "exactly one"],
  ])("%j is refused, naming %s", ([query, named]) => {
    expect(() => readIdentityQuery(query)).toThrow(
      expect.objectContaining({ message: expect.stringContaining(named) }),
    );
  });

  test("of a container alone means all of it, as before", () => {
    const query: IdentityQuery = { question: { kind: "container", name: "c1" }, here: false };
    expect(readIdentityQuery({ container: "c1" })).toEqual(query);
  });
});

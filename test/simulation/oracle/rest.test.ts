import { expect, test } from "vitest";
import { Fabricated, uidOf } from "./fabricated.ts";

const A = "10.1.0.5/25";
const PARENT = { kind: "IPAMClaim", name: "claim" };

async function restOf(world: Fabricated): Promise<string> {
  try {
    await world.rest();
  } catch (thrown) {
    return (thrown as { kind?: string }).kind ?? String(thrown);
  }
  return "nothing";
}

test.each<[string, string, (world: Fabricated) => void]>([
  ["nothing", "a pod lives", (world) => world.hold(A, { name: world.pod("web").name })],
  [
    "nothing",
    "a restored etcd has brought a pod back that had ended",
    (world) => {
      world.hold(A, { name: world.pod("web").name });
      const saved = world.etcd.save();
      world.pod("web", { status: { phase: "Succeeded" } });
      world.step();
      world.etcd.restore(saved);
      world.step();
    },
  ],
  [
    "nothing",
    "a container lives whose pod is gone",
    (world) => {
      world.served("web", A);
      world.noPod("web");
    },
  ],
  [
    "held-without-reason",
    "its container runs with another address",
    (world) => {
      const one = { ...world.interface(world.pod("web")), containerId: "c" };
      world.hold("10.1.0.9/25", { name: "web" }, { on: "node-1" });
      world.oracle.up(one, ["10.1.0.9/25"]);
      world.step();
      world.hold(A, { name: "web" }, { on: "node-1" });
    },
  ],
  [
    "held-without-reason",
    "the next sandbox of its pod has another address",
    (world) => {
      world.served("web", "10.1.0.9/25");
      world.hold(A, { name: "web" }, { on: "node-1" });
    },
  ],
  ["held-without-reason", "its pod is gone", (world) => world.hold(A, { name: "gone" }, { on: "node-1" })],
  [
    "held-without-reason",
    "another pod has the name",
    (world) => world.hold(A, { name: world.pod("web").name, uid: "former" }, { on: "node-1" }),
  ],
  [
    "nothing",
    "its pod is gone, and its node exists and is off",
    (world) => {
      world.node("node-2");
      world.hold(A, { name: "gone" }, { on: "node-2" });
    },
  ],
  ["nothing", "it was recorded from before, and its node exists", (world) => world.hold(A, { name: "gone" })],
  [
    "nothing",
    "its claim lists nothing yet",
    (world) => {
      world.claim("claim", []);
      world.hold(A, PARENT);
    },
  ],
  [
    "nothing",
    "its claim lists it",
    (world) => {
      world.hold(A, PARENT);
      world.claim("claim", [A]);
    },
  ],
  [
    "held-without-reason",
    "its claim lists another one",
    (world) => {
      world.network({});
      world.hold("10.1.0.9/25", PARENT);
      world.hold(A, PARENT);
      world.claim("claim", ["10.1.0.9/25"]);
    },
  ],
  ["held-without-reason", "its claim is gone", (world) => world.hold(A, PARENT)],
  [
    "nothing",
    "its claim is gone, and a living pod names it",
    (world) => {
      world.pod("web", { claim: "claim" });
      world.hold(A, PARENT);
    },
  ],
  ["rests-for-ever", "it rests", (world) => world.hold(A, { name: "gone" }, { state: "Cooling" })],
  [
    "nothing",
    "it rests, and the controller has everything in sight again since a moment ago",
    (world) => {
      world.knownSinceMs = 150_000;
      world.hold(A, { name: "gone" }, { state: "Cooling" });
    },
  ],
  [
    "held-without-reason",
    "the machine's claim is gone",
    (world) => world.hold(A, { kind: "IPAddressClaim", name: "m" }),
  ],
  [
    "nothing",
    "the machine's claim is gone in a move",
    (world) => {
      world.etcd.put("/namespaces", "shop", { metadata: { name: "shop" } });
      world.hold(A, { kind: "IPAddressClaim", name: "m", cluster: "prod" });
    },
  ],
  [
    "held-without-reason",
    "the machine's claim is gone, and its cluster is there",
    (world) => {
      world.etcd.put("cluster.x-k8s.io/clusters", "shop/prod", { metadata: { name: "prod" }, spec: {} });
      world.hold(A, { kind: "IPAddressClaim", name: "m", cluster: "prod" });
    },
  ],
])("the oracle finds %s at rest when %s", async (kind, _, happens) => {
  const world = new Fabricated();
  happens(world);
  expect(await restOf(world)).toBe(kind);
});

test("the oracle compares an IPNetwork's counts with the allocations", async () => {
  const right = new Fabricated();
  right.served("web", A);
  right.network({ size: "128", allocated: "1", cooling: "0", free: "125" });
  expect(await restOf(right)).toBe("nothing");
  const wrong = new Fabricated();
  wrong.served("web", A);
  wrong.network({ size: "128", allocated: "3", cooling: "0", free: "123" });
  expect(await restOf(wrong)).toBe("counts");
  const tooMany = new Fabricated();
  tooMany.served("web", A);
  tooMany.network({ size: "128", allocated: "1", cooling: "0", free: "128" });
  expect(await restOf(tooMany)).toBe("counts");
});

test("addresses outside an edited range need not be counted", async () => {
  const world = new Fabricated();
  const web = world.served("web", A);
  const small = { size: "8", allocated: "0", cooling: "0", free: "6" };
  world.network(small);
  world.network(small, "10.1.0.0/29");
  expect(await restOf(world)).toBe("nothing");
  // Once they are gone, and its counts right, everything is counted again.
  world.oracle.down(web);
  world.free(A);
  expect(await restOf(world)).toBe("nothing");
  world.served("mail", A);
  expect(await restOf(world)).toBe("counts");
});

test("a range edited through another network's name stays edited when that network's counts are right", async () => {
  const world = new Fabricated();
  world.served("web", A);
  const small = { size: "8", allocated: "0", cooling: "0", free: "6" };
  world.network(small);
  const nad = { metadata: { namespace: "shop", name: "blue" }, spec: { config: '{"name":"another"}' } };
  world.etcd.put("k8s.cni.cncf.io/network-attachment-definitions", "shop/blue", nad);
  const right = { size: "8", allocated: "0", cooling: "0", free: "8" };
  world.etcd.put("ipam.holdfast.dev/ipnetworks", "another", {
    metadata: { name: "another" },
    spec: { network: "another" },
    status: right,
  });
  world.network(small, "10.1.0.0/29");
  expect(await restOf(world)).toBe("nothing");
  expect(await restOf(world)).toBe("nothing");
});

test("at rest all daemons must be ready, and one controller must lead", async () => {
  const daemon = new Fabricated();
  daemon.notReady = "the pods of this node are not listed yet";
  expect(await restOf(daemon)).toBe("not-ready");
  const off = new Fabricated();
  off.notReady = "it is stopping";
  off.isUp = false;
  expect(await restOf(off)).toBe("nothing");
  const alone = new Fabricated();
  alone.nowMs = 1_000_000;
  await expect(alone.oracle.atRest()).rejects.toMatchObject({ kind: "not-ready" });
});

test("at rest holdfast check on a node may report only what an operator has to fix", async () => {
  const world = new Fabricated();
  world.findings.push({ invariant: "definition", message: "NAD shop/blue is not JSON" });
  expect(await restOf(world)).toBe("nothing");
  world.findings.push({
    invariant: "outbox",
    message: "3 releases are pending: they have not been sent to the API server yet",
  });
  expect(await restOf(world)).toBe("check-finds");
});

test("holdfast check may report an address whose loss was reported", async () => {
  const world = new Fabricated();
  world.served("web", A);
  world.oracle.excused("blue", A, "release --force");
  world.hold(A, { name: world.pod("db").name });
  world.oracle.lossTold("blue", A);
  world.findings.push({ invariant: "I2", message: `${A} of network blue belongs to pod shop/db` });
  expect(await restOf(world)).toBe("nothing");
  world.findings.push({ invariant: "I2", message: "10.1.0.77/25 of network blue has no IPAllocation" });
  expect(await restOf(world)).toBe("check-finds");
});

/** A pod that is refused just before the rest. */
async function refusedAtRest(
  code: number,
  message: string,
  world = new Fabricated(),
  claim = "claim",
): Promise<string> {
  const one = world.interface(world.pod("web", { claim }));
  const rest = world.rest.bind(world);
  world.oracle.refused(one, code, message);
  // The latest attempt is a recent one.
  world.nowMs += 190_000;
  world.oracle.refused(one, code, message);
  world.nowMs -= 190_000;
  try {
    await rest();
  } catch (thrown) {
    return (thrown as { kind?: string }).kind ?? String(thrown);
  }
  return "nothing";
}

test("at rest a refused pod must have a reason that the oracle can verify", async () => {
  expect(await refusedAtRest(11, "holdfast is not ready: it is stopping", undefined, "")).toBe("unanswered");
  expect(await refusedAtRest(999, "a fault in holdfast", undefined, "")).toBe("unanswered");
  expect(await refusedAtRest(7, "cniVersion is 5: expected a string", undefined, "")).toBe("nothing");
  expect(await refusedAtRest(11, "IPAMClaim shop/claim does not exist yet")).toBe("nothing");
  const there = new Fabricated();
  there.claim("claim", []);
  expect(await refusedAtRest(11, "IPAMClaim shop/claim does not exist yet", there)).toBe("unanswered");
  const foreign = new Fabricated();
  foreign.claim("claim", [], { vm: "vm" });
  expect(await refusedAtRest(11, "IPAMClaim shop/claim belongs to VM vm", foreign)).toBe("nothing");
  const inUse = new Fabricated();
  inUse.hold(A, PARENT);
  inUse.claim("claim", [A]);
  expect(await refusedAtRest(124, "IPAMClaim shop/claim is used by pod shop/other", inUse)).toBe("unanswered");
  inUse.oracle.up(inUse.interface(inUse.pod("other", { claim: "claim" })), [A]);
  expect(await refusedAtRest(124, "IPAMClaim shop/claim is used by pod shop/other", inUse)).toBe("nothing");
});

test("a refusal as full is accepted only if the IPNetwork counts no free address", async () => {
  const message = "no free address in 10.1.0.0/25 of network blue";
  const full = new Fabricated();
  full.network({ size: "128", allocated: "0", cooling: "0", free: "0" });
  expect(await refusedAtRest(11, message, full, "")).toBe("nothing");
  const free = new Fabricated();
  free.network({ size: "128", allocated: "0", cooling: "0", free: "7" });
  expect(await refusedAtRest(11, message, free, "")).toBe("unanswered");
});

test("a refusal as held is accepted only if another owner holds the address", async () => {
  const world = new Fabricated();
  world.hold(A, { name: world.pod("db").name });
  expect(await refusedAtRest(120, "10.1.0.5 is held by pod shop/db on network blue", world, "")).toBe("nothing");
  expect(await refusedAtRest(120, "10.1.0.66 is held by pod shop/db on network blue", world, "")).toBe("unanswered");
  expect(uidOf("x")).toBe("x-uid");
});

import { expect, test } from "vitest";
import { Fabricated, uidOf } from "./fabricated.ts";
import { NADS, VMIS } from "./view.ts";

const A = "10.1.0.5/25";
const COOLDOWN_MS = 10_000;

/** Also where it is thrown at rest. */
async function kindOf(work: () => unknown): Promise<string> {
  try {
    await work();
  } catch (thrown) {
    return (thrown as { kind?: string }).kind ?? String(thrown);
  }
  return "nothing";
}

/** `blue` has a cool-down and much room. */
function roomy(): Fabricated {
  const world = new Fabricated();
  world.network({ size: "128", allocated: "0", cooling: "0", free: "125", subnets: "10.1.0.0/25" });
  const config = JSON.stringify({ name: "blue", ipam: { cooldownSeconds: COOLDOWN_MS / 1_000 } });
  world.etcd.put(NADS, "shop/blue", { metadata: { namespace: "shop", name: "blue" }, spec: { config } });
  return world;
}

/** It was used and given back `agoMs` ago; now it is given to another pod. */
function givenOn(agoMs: number, world = roomy()): void {
  world.hold(A, { name: "web" }, { on: "node-1" });
  world.step();
  world.hold(A, { name: "web" }, { state: "Cooling" });
  world.step();
  world.nowMs += agoMs;
  world.pod("db");
  world.hold(A, { name: "db" }, { on: "node-1" });
  world.step();
}

test("an address must cool down before another owner gets it, while other addresses are free", async () => {
  expect(await kindOf(() => givenOn(500))).toBe("given-too-soon");
  expect(await kindOf(() => givenOn(COOLDOWN_MS))).toBe("nothing");
});

test("the cool-down begins at the time in the release, even if its write arrives late", async () => {
  const late = roomy();
  const release = late.hold.bind(late);
  late.hold = (...all) => {
    const { nowMs } = late;
    if (all[2]?.state === "Cooling") late.nowMs = Math.max(0, nowMs - COOLDOWN_MS);
    release(...all);
    late.nowMs = nowMs;
  };
  late.nowMs = 10 * COOLDOWN_MS;
  expect(await kindOf(() => givenOn(500, late))).toBe("nothing");
});

test("in a nearly full network an address may be given before its cool-down is over", async () => {
  const full = roomy();
  full.network({ size: "8", allocated: "5", cooling: "0", free: "0", subnets: "10.1.0.0/29" });
  for (let last = 10; last < 15; last += 1) full.hold(`10.1.0.${last}/25`, { name: `pod-${last}` });
  expect(await kindOf(() => givenOn(500, full))).toBe("nothing");
});

test("an owner may get its own address back during the cool-down", async () => {
  const world = roomy();
  world.pod("web");
  world.hold(A, { name: "web" }, { on: "node-1" });
  world.hold(A, { name: "web" }, { state: "Cooling" });
  world.hold(A, { name: "web" }, { on: "node-1" });
  expect(await kindOf(() => world.step())).toBe("nothing");
});

test("the oracle finds an address that is allocated again to a pod that has ended", async () => {
  const world = roomy();
  world.pod("job", { status: { phase: "Succeeded", containerStatuses: [{ state: { terminated: {} } }] } });
  world.hold(A, { name: "job" }, { on: "node-1" });
  world.hold(A, { name: "job" }, { state: "Cooling" });
  world.step();
  world.nowMs += 60_000;
  world.hold(A, { name: "job" }, { on: "node-1" });
  expect(await kindOf(() => world.step())).toBe("revived");
});

test("restoring the allocation of a running container does not count as a new allocation during cool-down", async () => {
  const world = roomy();
  world.hold(A, { name: "web" }, { on: "node-1" });
  world.step();
  const saved = world.etcd.save();
  world.nowMs += COOLDOWN_MS;
  world.free(A);
  world.served("db", A);
  world.etcd.restore(saved);
  world.step();
  world.hold(A, { name: "web" }, { state: "Cooling" });
  world.step();
  world.nowMs += 500;
  world.hold(A, { name: "db" }, { on: "node-1" });
  expect(await kindOf(() => world.step())).toBe("nothing");
});

test("a pod that a restored etcd shows as running again may get its address back", async () => {
  const world = roomy();
  world.pod("job");
  const saved = world.etcd.save();
  const ended = { status: { phase: "Succeeded", containerStatuses: [{ state: { terminated: {} } }] } };
  world.pod("job", ended);
  world.nowMs += 60_000;
  world.etcd.restore(saved);
  world.step();
  const takeBack = () => {
    world.hold(A, { name: "job" }, { on: "node-1" });
    world.hold(A, { name: "job" }, { state: "Cooling" });
    world.step();
    world.hold(A, { name: "job" }, { on: "node-1" });
    world.step();
  };
  expect(await kindOf(takeBack)).toBe("nothing");
  world.pod("job", ended);
  world.nowMs += 60_000;
  expect(await kindOf(takeBack)).toBe("revived");
});

test("an answered address must be in the claim's list before the answer and until the pod ends", async () => {
  const early = new Fabricated();
  early.claim("claim", []);
  early.hold(A, { kind: "IPAMClaim", name: "claim" });
  early.oracle.up(early.interface(early.pod("web", { claim: "claim" })), [A]);
  expect(await kindOf(() => early.step())).toBe("answered-unpublished");

  const emptied = new Fabricated();
  emptied.hold(A, { kind: "IPAMClaim", name: "claim" });
  emptied.claim("claim", [A]);
  emptied.oracle.up(emptied.interface(emptied.pod("web", { claim: "claim" })), [A]);
  emptied.step();
  emptied.oracle.excused("blue", A, "somebody emptied the list");
  emptied.claim("claim", []);
  expect(await kindOf(() => emptied.step())).toBe("nothing");
  expect(await kindOf(() => emptied.rest())).toBe("answered-unpublished");
});

test("the ownerPod of a claim in use must name the pod that uses it", async () => {
  const world = new Fabricated();
  world.hold(A, { kind: "IPAMClaim", name: "claim" });
  world.claim("claim", [A]);
  world.oracle.up(world.interface(world.pod("source", { claim: "claim" })), [A]);
  world.step();
  const claim = world.etcd.get("k8s.cni.cncf.io/ipamclaims", "shop/claim");
  const naming = (name: string) =>
    world.etcd.put("k8s.cni.cncf.io/ipamclaims", "shop/claim", {
      ...claim,
      status: { ...claim.status, ownerPod: { name } },
    });
  naming("source");
  expect(await kindOf(() => world.rest())).toBe("nothing");
  naming("target");
  expect(await kindOf(() => world.rest())).toBe("owner-pod");
  // It ends: nobody uses the claim, and the last name stays.
  world.pod("source", { claim: "claim", status: { phase: "Succeeded" } });
  expect(await kindOf(() => world.rest())).toBe("nothing");
});

test("the oracle finds a pod that holds more addresses than it needs", async () => {
  const world = new Fabricated();
  world.pod("greedy");
  for (let last = 10; last < 20; last += 1) world.hold(`10.1.0.${last}/25`, { name: "greedy", uid: uidOf("greedy") });
  expect(await kindOf(() => world.rest())).toBe("held-beyond-need");
});

test("after a restore of etcd that its daemon has seen an address in use must not be given again", async () => {
  const world = roomy();
  const saved = world.etcd.save();
  world.served("web", A);
  world.etcd.restore(saved);
  world.step();
  world.hold(A, { name: "db" });
  world.oracle.up(world.interface(world.pod("db")), [A]);
  expect(await kindOf(() => world.step())).toBe("given-twice");
});

test("a daemon that was stopped when etcd was restored is excused for addresses given twice", async () => {
  const world = roomy();
  const saved = world.etcd.save();
  world.served("web", A);
  world.notReady = "it is stopping";
  world.etcd.restore(saved);
  world.step();
  world.hold(A, { name: "db" });
  world.oracle.up(world.interface(world.pod("db")), [A]);
  expect(await kindOf(() => world.step())).toBe("nothing");
});

test("holdfast check on a node must not report addresses of pods that have ended", async () => {
  const world = new Fabricated();
  const one = world.served("web", A);
  const findings = [{ invariant: "I2", message: `${A}, in use by container ${one.containerId}, is not Bound` }];
  world.oracle.checked("node-1", findings);
  expect(await kindOf(() => world.step())).toBe("nothing");
  world.pod("web", { status: { phase: "Succeeded" } });
  world.step();
  world.nowMs += 60_000;
  world.oracle.checked("node-1", []);
  expect(await kindOf(() => world.step())).toBe("nothing");
  world.oracle.checked("node-1", findings);
  expect(await kindOf(() => world.step())).toBe("check-finds");
});

/** Longer than a node may take. */
const LONG_MS = 200_000;

/** `web` had the address, and is gone; its container was ended so long ago. */
function gone({ agoMs = LONG_MS, isDeleted = true } = {}): Fabricated {
  const world = new Fabricated();
  const one = { ...world.interface(world.pod("web")), containerId: "c" };
  world.hold(A, { name: "web" }, { on: "node-1" });
  world.oracle.up(one, [A]);
  world.step();
  world.oracle.down(one);
  world.noPod("web");
  if (isDeleted) world.oracle.deleted(one);
  world.nowMs += agoMs;
  return world;
}

const alone = (world: Fabricated) => kindOf(() => world.oracle.withoutControllers());

test("a node must release an address after its DEL without a controller", async () => {
  expect(await alone(gone())).toBe("held-without-reason");
  const released = gone();
  released.hold(A, { name: "web" }, { state: "Cooling", on: "node-1" });
  expect(await alone(released)).toBe("nothing");
});

test("a lost journal excuses a missed release only for a static pod", async () => {
  const STATIC_UID = "d41d8cd98f00b204e9800998ecf8427e";
  const lost = (uid: string) => {
    const world = new Fabricated();
    const one = { ...world.interface({ namespace: "shop", name: "web", uid }), containerId: "c" };
    world.hold(A, { name: "web", uid }, { on: "node-1" });
    world.oracle.deleted(one);
    world.oracle.journalLost("node-2");
    world.nowMs += LONG_MS;
    return world;
  };
  expect(await alone(lost(STATIC_UID))).toBe("held-without-reason");
  for (const [uid, found] of [
    [STATIC_UID, "nothing"],
    [uidOf("web"), "held-without-reason"],
  ] as const) {
    const world = lost(uid);
    world.oracle.journalLost("node-1");
    expect(await alone(world)).toBe(found);
  }
});

test("a node may take some time to release, and need not release without a DEL", async () => {
  expect(await alone(gone({ agoMs: 1_000 }))).toBe("nothing");
  expect(await alone(gone({ isDeleted: false }))).toBe("nothing");
});

test("the DEL of a former container does not oblige the node to release a living pod's address", async () => {
  const world = gone();
  world.pod("web");
  expect(await alone(world)).toBe("nothing");
});

test("a reused container ID does not count as the former container", async () => {
  const world = gone();
  const again = { ...world.interface(world.pod("db")), containerId: "c" };
  world.hold("10.1.0.9/25", { name: "db" }, { on: "node-1" });
  world.oracle.up(again, ["10.1.0.9/25"]);
  world.step();
  expect(await alone(world)).toBe("nothing");
});

test("a container that ended before the last rest is still checked while an allocation names it", async () => {
  const world = gone();
  world.pod("web");
  await world.rest();
  world.noPod("web");
  expect(await alone(world)).toBe("held-without-reason");
});

test("the claim of a VM that runs where it is to be is there too", async () => {
  const world = new Fabricated();
  world.hold(A, { kind: "IPAMClaim", name: "db.nic" });
  world.claim("db.nic", [A], { vm: "db" });
  world.instance("db", "db");
  const pod = world.pod("source", { claim: "db.nic", vmi: "db" });
  world.oracle.up(world.interface(pod), [A]);
  world.step();
  const wanted = (network: string) => {
    const config = JSON.stringify({ name: network, allowPersistentIPs: true, ipam: { type: "holdfast-ipam" } });
    world.etcd.put(NADS, "shop/nad", { metadata: { namespace: "shop", name: "nad" }, spec: { config } });
    const vmi = world.etcd.get(VMIS, "shop/db");
    world.etcd.put(VMIS, "shop/db", {
      ...vmi,
      spec: { networks: [{ name: "nic", multus: { networkName: "nad" } }] },
    });
  };
  const claim = world.etcd.get("k8s.cni.cncf.io/ipamclaims", "shop/db.nic");
  world.etcd.put("k8s.cni.cncf.io/ipamclaims", "shop/db.nic", {
    ...claim,
    spec: { network: "red" },
    status: { ips: ["10.9.0.7/24", A] },
  });
  world.hold("10.9.0.7/24", { kind: "IPAMClaim", name: "db.nic" }, { network: "red" });
  for (const name of ["blue", "red"]) {
    const config = JSON.stringify({ name });
    world.etcd.put(NADS, `lab/${name}`, { metadata: { namespace: "lab", name }, spec: { config } });
  }
  wanted("red");
  expect(await kindOf(() => world.rest()), "it migrates").toBe("nothing");
  wanted("blue");
  expect(await kindOf(() => world.rest()), "it does not any more").toBe("claim-astray");
});

import { expect, test } from "vitest";
import { Fabricated, uidOf } from "./fabricated.ts";

const A = "10.1.0.5/25";
const SAME_A = "10.1.0.5/24";
const B = "10.1.0.6/25";

/** What a step with these things in it is called. */
function kindOf(work: () => void): string {
  try {
    work();
  } catch (thrown) {
    return (thrown as { kind?: string }).kind ?? String(thrown);
  }
  return "nothing";
}

test("an address of two pods is found when the second one is up, with both named", () => {
  const world = new Fabricated();
  world.served("web", A);
  world.hold(A, { name: "db" });
  world.oracle.up(world.interface(world.pod("db")), [SAME_A]);
  expect(() => world.step()).toThrow(/10\.1\.0\.5.*shop\/web.*shop\/db/);
  expect(kindOf(() => world.oracle.up(world.interface(world.pod("x")), [A]) ?? world.step())).toBe(
    "given-twice",
  );
});

test("an address that a pod has given back is another one's", () => {
  const world = new Fabricated();
  const web = world.served("web", A);
  world.oracle.down(web);
  world.hold(A, { name: "web" }, { state: "Cooling" });
  world.step();
  world.served("db", A);
});

test("the same address of another network is another address", () => {
  const world = new Fabricated();
  world.served("web", A);
  const other = { ...world.interface(world.pod("db")), network: "green" };
  world.etcd.put("ipam.holdfast.dev/ipallocations", "green-5", {
    metadata: { name: "green-5" },
    spec: {
      network: "green",
      address: A,
      owner: { kind: "Pod", namespace: "shop", name: "db", uid: uidOf("db"), interface: "net1" },
    },
    status: { state: "Bound" },
  });
  world.oracle.up(other, [A]);
  world.step();
});

test("an IPv6 address is the same in every notation", () => {
  const world = new Fabricated();
  world.served("web", "fd00::5/64");
  world.hold("fd00:0:0::5/64", { name: "db" });
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

/** A claim of virtual machine `vm`, whose instance `vmi` runs in pod `source`. */
function migrating(): Fabricated {
  const world = new Fabricated();
  world.instance("vmi", "vm");
  world.claim("claim", [], { vm: "vm" });
  world.hold(A, { kind: "IPAMClaim", name: "claim" });
  world.claim("claim", [A], { vm: "vm" });
  world.oracle.up(world.interface(world.pod("source", { vmi: "vmi", claim: "claim" })), [A]);
  world.step();
  return world;
}

test("source and target of a migration have one address", () => {
  const world = migrating();
  world.oracle.up(world.interface(world.pod("target", { vmi: "vmi", claim: "claim" })), [A]);
  world.step();
});

test("a claim of one virtual machine does not serve a pod of another", () => {
  const world = migrating();
  world.instance("thief", "thiefs-vm");
  world.oracle.up(world.interface(world.pod("stranger", { vmi: "thief", claim: "claim" })), [A]);
  expect(kindOf(() => world.step())).toBe("given-twice");
  const quiet = migrating();
  quiet.oracle.down(quiet.interface(quiet.pod("source", { vmi: "vmi", claim: "claim" })));
  quiet.oracle.up(quiet.interface(quiet.pod("stranger", { claim: "claim" })), [A]);
  expect(kindOf(() => quiet.step())).toBe("stranger-answered");
});

test("a claim without a machine serves one pod after the other, and not two at once", () => {
  const both = new Fabricated();
  both.hold(A, { kind: "IPAMClaim", name: "claim" });
  both.claim("claim", [A]);
  both.oracle.up(both.interface(both.pod("first", { claim: "claim" })), [A]);
  both.step();
  both.pod("second", { claim: "claim" });
  both.noPod("first");
  both.oracle.up(both.interface(both.pod("second", { claim: "claim" })), [A]);
  both.step();
  both.oracle.up(both.interface(both.pod("third", { claim: "claim" })), [A]);
  expect(kindOf(() => both.step())).toBe("given-twice");
});

test("what is answered is recorded for the pod first", () => {
  const world = new Fabricated();
  world.oracle.up(world.interface(world.pod("web")), [A]);
  expect(kindOf(() => world.step())).toBe("answered-unheld");
  const other = new Fabricated();
  other.hold(A, { name: "db" });
  other.oracle.up(other.interface(other.pod("web")), [A]);
  expect(kindOf(() => other.step())).toBe("answered-unheld");
});

test.each([
  ["rests", (world: Fabricated) => world.hold(A, { name: "web" }, { state: "Cooling" })],
  ["is deleted", (world: Fabricated) => world.free(A)],
  ["is another pod's", (world: Fabricated) => world.hold(A, { name: "db" })],
])("an address in use that %s was freed in use", (_, happens) => {
  const world = new Fabricated();
  world.served("web", A);
  happens(world);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

test("an address of a pod that is gone is still in use while its container runs", () => {
  const world = new Fabricated();
  world.served("web", A);
  world.noPod("web");
  world.step();
  world.free(A);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

const ENDED = { phase: "Succeeded", containerStatuses: [{ state: { terminated: {} } }] };
const EVICTED = { phase: "Failed", containerStatuses: [{ state: { running: {} } }] };

test("a pod that has ended may lose its address while its sandbox stays; an evicted one that still runs may not", () => {
  const world = new Fabricated();
  world.served("job", A);
  world.pod("job", { status: ENDED });
  world.hold(A, { name: "job" }, { state: "Cooling" });
  world.step();
  world.served("evicted", B);
  world.pod("evicted", { status: EVICTED });
  world.free(B);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

test("where the node is gone, or its pod is gone and the node not reachable, the address may go", () => {
  const world = new Fabricated();
  world.node("node-2");
  const pod = world.pod("lost", { node: "node-2" });
  world.hold(A, { name: "lost" });
  world.oracle.up(world.interface(pod, "c", "node-2"), [A]);
  world.node("node-2", "Unknown");
  world.noPod("lost");
  world.step();
  world.hold(A, { name: "lost" }, { state: "Cooling" });
  world.step();
  const gone = new Fabricated();
  gone.served("web", A);
  gone.etcd.delete("/nodes", "node-1");
  gone.nowMs += 5_000;
  gone.free(A);
  gone.step();
});

test("a pod that was deleted by force keeps its address, unless nobody sees its namespace: then for a grace", () => {
  const freedAfter = (ms: number, isUnseen: boolean): string => {
    const world = new Fabricated();
    world.served("web", A).isUnseen = isUnseen;
    world.noPod("web");
    world.nowMs += ms;
    world.free(A);
    return kindOf(() => world.step());
  };
  expect(freedAfter(60_000, false)).toBe("freed-in-use");
  expect(freedAfter(10_000, true)).toBe("freed-in-use");
  expect(freedAfter(20_000, true)).toBe("nothing");
});

test("a node that is registered anew has not been gone", () => {
  const world = new Fabricated();
  world.served("web", A);
  world.etcd.delete("/nodes", "node-1");
  world.nowMs += 2_000;
  world.node("node-1");
  world.step();
  world.nowMs += 5_000;
  world.free(A);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

test("a published claim's address is reserved before and held as long as the claim is there", () => {
  const early = new Fabricated();
  early.claim("claim", [A]);
  expect(kindOf(() => early.step())).toBe("published-unheld");
  const stopped = new Fabricated();
  stopped.hold(A, { kind: "IPAMClaim", name: "claim" });
  stopped.claim("claim", [A]);
  stopped.step();
  stopped.free(A);
  expect(kindOf(() => stopped.step())).toBe("freed-in-use");
  const deleted = new Fabricated();
  deleted.hold(A, { kind: "IPAMClaim", name: "claim" });
  deleted.claim("claim", [A]);
  deleted.step();
  deleted.noClaim("claim");
  deleted.step();
  deleted.free(A);
  deleted.step();
});

test("a claim that says why it has not what it lists is no violation", () => {
  const world = new Fabricated();
  world.hold(A, { name: "db" });
  world.claim("claim", [A], {
    conditions: [{ type: "IPsAllocated", status: "False", reason: "IPAddressConflict" }],
  });
  world.step();
});

test("a claim's list does not change", () => {
  const world = new Fabricated();
  world.hold(A, { kind: "IPAMClaim", name: "claim" });
  world.hold(B, { kind: "IPAMClaim", name: "claim" });
  world.claim("claim", [A]);
  world.step();
  world.claim("claim", [B]);
  expect(kindOf(() => world.step())).toBe("changed-claim");
});

test("an exact repeat has the same answer; a container that begins anew may have another", () => {
  const world = new Fabricated();
  const web = world.served("web", A);
  world.oracle.up(web, [A]);
  world.step();
  world.oracle.down(web);
  world.hold(B, { name: "web" });
  world.oracle.up(web, [B]);
  world.step();
  world.oracle.up(web, [A]);
  expect(kindOf(() => world.step())).toBe("changed-answer");
});

test("a guest is told its own pod's, instance's or machine's identity, and nobody else's", () => {
  const world = migrating();
  const source = world.interface(world.pod("source", { vmi: "vmi", claim: "claim" }));
  for (const uid of [null, uidOf("source"), uidOf("vmi"), uidOf("vm")]) world.oracle.identified(source, uid);
  world.step();
  world.oracle.identified(source, uidOf("thiefs-vm"));
  expect(kindOf(() => world.step())).toBe("wrong-identity");
});

const MACHINE = { network: "blue", namespace: "shop", claim: "m-0" };

test("a machine keeps its address until it is turned off, also under the next claim of its name", () => {
  const world = new Fabricated();
  world.hold(A, { kind: "IPAddressClaim", name: "m-0" });
  world.oracle.machineUp(MACHINE, A);
  world.step();
  world.hold(A, { kind: "IPAddressClaim", name: "m-0", uid: "another" });
  world.step();
  world.oracle.machineDown(MACHINE);
  world.free(A);
  world.step();
  world.hold(A, { kind: "IPAddressClaim", name: "m-0" });
  world.oracle.machineUp(MACHINE, A);
  world.step();
  world.free(A);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

test("a machine and a pod do not have one address, unless the pod has ended", () => {
  const ended = new Fabricated();
  ended.served("job", A);
  ended.pod("job", { status: ENDED });
  ended.hold(A, { kind: "IPAddressClaim", name: "m-0" });
  ended.oracle.machineUp(MACHINE, A);
  ended.step();
  const world = new Fabricated();
  world.hold(A, { kind: "IPAddressClaim", name: "m-0" });
  world.oracle.machineUp(MACHINE, A);
  world.step();
  world.hold(A, { name: "web" });
  world.oracle.up(world.interface(world.pod("web")), [A]);
  expect(kindOf(() => world.step())).toBe("given-twice");
});

test("who was excused has until the next rest to mend it, or to tell", async () => {
  const mended = new Fabricated();
  mended.network({ size: "128", allocated: "1", cooling: "0", free: "120" });
  mended.served("web", A);
  mended.oracle.excused("blue", A, "release --force");
  mended.free(A);
  mended.step();
  mended.hold(A, { name: "web" });
  await mended.rest();
  mended.free(A);
  expect(kindOf(() => mended.step())).toBe("freed-in-use");

  const told = new Fabricated();
  told.served("web", A);
  told.oracle.excused("blue", A, "release --force");
  told.served("db", A);
  told.oracle.lossTold("blue", "10.1.0.5");
  await told.rest();
  told.step();

  const untold = new Fabricated();
  untold.served("web", A);
  untold.oracle.excused("blue", null, "its objects were deleted");
  untold.free(A);
  untold.step();
  await expect(untold.rest()).rejects.toMatchObject({ kind: "untold-loss" });
});

test("what a restored etcd took away is excused, and nothing else", async () => {
  const world = new Fabricated();
  world.served("web", A);
  const saved = world.etcd.save();
  world.served("db", B);
  world.etcd.restore(saved);
  world.step();
  world.served("late", "10.1.0.7/25");
  world.free(A);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
  world.hold(A, { name: "web" });
  world.hold(B, { name: "db" });
  world.pod("db");
  await world.rest();
});

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

test("the oracle finds an address that two running pods have, and names both", () => {
  const world = new Fabricated();
  world.served("web", A);
  world.hold(A, { name: "db" });
  world.oracle.up(world.interface(world.pod("db")), [SAME_A]);
  expect(() => world.step()).toThrow(/10\.1\.0\.5.*shop\/web.*shop\/db/);
  expect(kindOf(() => world.oracle.up(world.interface(world.pod("x")), [A]) ?? world.step())).toBe("given-twice");
});

test("a released address can be allocated to another pod", () => {
  const world = new Fabricated();
  const web = world.served("web", A);
  world.oracle.down(web);
  world.hold(A, { name: "web" }, { state: "Cooling" });
  world.step();
  world.served("db", A);
});

test("two networks may each allocate the same address", () => {
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

test("IPv6 addresses are compared by value, not by notation", () => {
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

test("the source and target pods of a migration may share an address", () => {
  const world = migrating();
  world.oracle.up(world.interface(world.pod("target", { vmi: "vmi", claim: "claim" })), [A]);
  world.step();
});

test("the oracle finds a claim of one VM that serves a pod of another", () => {
  const world = migrating();
  world.instance("thief", "thiefs-vm");
  world.oracle.up(world.interface(world.pod("stranger", { vmi: "thief", claim: "claim" })), [A]);
  expect(kindOf(() => world.step())).toBe("given-twice");
  const quiet = migrating();
  quiet.oracle.down(quiet.interface(quiet.pod("source", { vmi: "vmi", claim: "claim" })));
  quiet.oracle.up(quiet.interface(quiet.pod("stranger", { claim: "claim" })), [A]);
  expect(kindOf(() => quiet.step())).toBe("stranger-answered");
});

test("a claim without a VM may serve one pod after another, but not two at once", () => {
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

test("the oracle finds an answer whose address is not recorded for the pod", () => {
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
])("the oracle finds an address in use that %s", (_, happens) => {
  const world = new Fabricated();
  world.served("web", A);
  happens(world);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

test("an address stays in use while its container runs, even if the pod object is gone", () => {
  const world = new Fabricated();
  world.served("web", A);
  world.noPod("web");
  world.step();
  world.free(A);
  expect(kindOf(() => world.step())).toBe("freed-in-use");
});

const ENDED = { phase: "Succeeded", containerStatuses: [{ state: { terminated: {} } }] };
const EVICTED = { phase: "Failed", containerStatuses: [{ state: { running: {} } }] };

test("a pod that has ended may lose its address, an evicted pod whose container still runs may not", () => {
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

test("an address may be released when its node is gone, or its pod is gone and the node unreachable", () => {
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

test("a force-deleted pod keeps its address, for a grace only if its network namespace cannot be seen", () => {
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

test("a node that is registered again does not count as gone", () => {
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

test("an exact repeat must get the same answer, a restarted container may get another", () => {
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

test("the oracle finds a guest that receives the identity of another VM", () => {
  const world = migrating();
  const source = world.interface(world.pod("source", { vmi: "vmi", claim: "claim" }));
  for (const uid of [null, uidOf("source"), uidOf("vmi"), uidOf("vm")]) world.oracle.identified(source, uid);
  world.step();
  world.oracle.identified(source, uidOf("thiefs-vm"));
  expect(kindOf(() => world.step())).toBe("wrong-identity");
});

const MACHINE = { network: "blue", namespace: "shop", claim: "m-0" };

test("a running machine must keep its address, also when its claim is recreated", () => {
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

test("a machine and a running pod must not have the same address", () => {
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

test("an excused loss must be repaired or reported by the next rest", async () => {
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

test("a restored etcd excuses the loss of what it took away, and nothing else", async () => {
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

test("what a VM uses may pass to its claim that was made again, and to no other machine's of the name", () => {
  const used = (vm: string) => {
    const world = new Fabricated();
    world.instance("vmi", "vm");
    world.hold(A, { kind: "IPAMClaim", name: "claim" });
    world.claim("claim", [A], { vm: "vm" });
    world.oracle.up(world.interface(world.pod("launcher", { vmi: "vmi", claim: "claim" })), [A]);
    world.step();
    world.noClaim("claim");
    world.claim("claim", [], { vm, uid: "again" });
    world.hold(A, { kind: "IPAMClaim", name: "claim", uid: "again" });
    return () => world.step();
  };
  expect(used("vm")).not.toThrow();
  expect(kindOf(used("another"))).toBe("freed-in-use");
});

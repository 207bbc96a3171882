import { expect, test } from "vitest";
import { Fabricated, uidOf } from "../fabricated.ts";
import { CLAIMS, NADS, VMIS, VMS } from "../view.ts";

/** What the oracle finds where a claim loses what its users were answered, or the product writes into it. */

const A = "10.1.0.5/25";
const B = "10.1.0.6/25";
const CLAIM = { kind: "IPAMClaim", name: "db.nic" };
/** Longer than an ADD and a controller may cross each other, ms. */
const LATER_MS = 40_000;

function kindOf(work: () => void): string {
  try {
    work();
  } catch (thrown) {
    return (thrown as { kind?: string }).kind ?? String(thrown);
  }
  return "nothing";
}

/** A claim whose user was answered A, and has ended since. */
function stopped(): Fabricated {
  const world = new Fabricated();
  world.hold(A, CLAIM, { on: "node-1" });
  world.claim(CLAIM.name, [A], { vm: "db" });
  user(world, "first", A);
  world.hold(A, CLAIM);
  world.step();
  world.nowMs += LATER_MS;
  return world;
}

/** A launcher of the VM is answered, and ends. */
function user(world: Fabricated, name: string, address: string, asks?: object): void {
  world.instance("db", "db");
  const one = world.interface(world.pod(name, { claim: CLAIM.name, vmi: "db", ...(asks && { asks }) }));
  world.oracle.up(one, [address]);
  world.step();
  world.oracle.down(one);
  world.etcd.delete(VMIS, "shop/db");
}

test("what was answered stays the claim's, whatever somebody lists", () => {
  const world = stopped();
  world.claim(CLAIM.name, [B], { vm: "db" });
  world.claim(CLAIM.name, [], { vm: "db" });
  expect(kindOf(() => world.step())).toBe("nothing");
  world.free(A);
  expect(kindOf(() => world.step())).toBe("changed-claim");

  const deleted = stopped();
  deleted.noClaim(CLAIM.name);
  deleted.free(A);
  expect(kindOf(() => deleted.step())).toBe("nothing");
});

test("the next user has the same, or what it asks for, or what the claim has had beside it all the time", () => {
  const next = (asks?: object, { before = false } = {}) => {
    const world = before ? new Fabricated() : stopped();
    if (before) {
      world.hold(B, CLAIM, { on: "node-1" });
      world.hold(A, CLAIM, { on: "node-1" });
      world.claim(CLAIM.name, [A, B], { vm: "db" });
      user(world, "first", A);
      world.nowMs += LATER_MS;
    }
    world.hold(B, CLAIM, { on: "node-1" });
    world.claim(CLAIM.name, [A, B], { vm: "db" });
    return kindOf(() => user(world, "next", B, asks));
  };
  expect(next()).toBe("changed-claim");
  expect(next({ nic: ["10.1.0.6"] })).toBe("nothing");
  expect(next({ nic: ["10.1.0.7"] })).toBe("changed-claim");
  expect(next(undefined, { before: true })).toBe("nothing");
});

test("beside a launcher that lives the next one has the same, whatever it asks for", () => {
  const world = stopped();
  world.instance("db", "db");
  world.hold(A, CLAIM, { on: "node-1" });
  world.oracle.up(world.interface(world.pod("source", { claim: CLAIM.name, vmi: "db" })), [A]);
  world.step();
  world.hold(B, CLAIM, { on: "node-1" });
  world.claim(CLAIM.name, [A, B], { vm: "db" });
  expect(kindOf(() => user(world, "target", B, { nic: ["10.1.0.6"] }))).toBe("changed-claim");
});

test("it is released once its VM is to be elsewhere and has an address there", () => {
  const moved = ({ hasThere = true, to = "red" } = {}) => {
    const world = stopped();
    const ipam = { type: "holdfast-ipam" };
    const config = JSON.stringify({ name: "red", allowPersistentIPs: to === "red", ipam });
    world.etcd.put(NADS, "shop/red", { metadata: { namespace: "shop", name: "red" }, spec: { config } });
    const networks = [{ name: "nic", multus: { networkName: "red" } }];
    world.etcd.put(VMS, "shop/db", {
      metadata: { namespace: "shop", name: "db", uid: uidOf("db") },
      spec: { template: { spec: { networks } } },
    });
    if (hasThere) world.hold("10.9.0.7/24", CLAIM, { on: "node-1", network: "red" });
    world.free(A);
    return kindOf(() => world.step());
  };
  expect(moved()).toBe("nothing");
  expect(moved({ hasThere: false }), "it has nothing there").toBe("changed-claim");
  expect(moved({ to: "nowhere" }), "nothing of it runs there").toBe("changed-claim");
});

test("what is reserved for a list is what an ADD could give, and one of each subnet", () => {
  const world = stopped();
  world.hold(B, CLAIM);
  expect(
    kindOf(() => world.step()),
    "it has another",
  ).toBe("reserved-amiss");

  const excluded = new Fabricated();
  const config = JSON.stringify({ name: "blue", ipam: { excludeSubnets: "10.1.0.4/30" } });
  excluded.etcd.put(NADS, "shop/blue", { metadata: { namespace: "shop", name: "blue" }, spec: { config } });
  excluded.claim(CLAIM.name, [A, "10.1.0.9/25"]);
  excluded.hold("10.1.0.9/25", CLAIM);
  expect(kindOf(() => excluded.step())).toBe("nothing");
  excluded.noClaim(CLAIM.name);
  excluded.free("10.1.0.9/25");
  excluded.step();
  excluded.hold(A, CLAIM);
  expect(kindOf(() => excluded.step())).toBe("reserved-amiss");
});

test("a node appends what it holds, and only a controller takes an entry away", () => {
  const written = (by: "node" | "controller", ips: readonly string[], network = "blue") => {
    const world = stopped();
    const before = world.etcd.get(CLAIMS, `shop/${CLAIM.name}`);
    const after = { ...before, spec: { network }, status: { ips } };
    world.oracle.claimWritten({ by, before, after });
    return kindOf(() => world.step());
  };
  expect(written("node", [A, B])).toBe("published-unheld");
  expect(written("controller", [B])).toBe("published-unheld");
  expect(written("node", [])).toBe("rewritten-list");
  expect(written("node", [A], "red")).toBe("rewritten-list");
  expect(written("controller", [])).toBe("nothing");
  expect(written("node", [A])).toBe("nothing");
});

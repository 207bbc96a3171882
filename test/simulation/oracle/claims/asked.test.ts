import { expect, test } from "vitest";
import { Fabricated } from "../fabricated.ts";

/** What the oracle finds where a VM asks for addresses. */

const A = "10.1.0.5/25";
const B = "10.1.0.6/25";
const CLAIM = { kind: "IPAMClaim", name: "vm.blue" };
/** KubeVirt's name for the interface of the VM's network `blue`. */
const IFNAME = "pod16477688c0e";
/** Longer than an ADD may look, ms. */
const LATER_MS = 30_000;
const ASKS_FOR_B = { asks: { blue: ["10.1.0.6"] } };

/** The VM's launcher is answered. */
function answered(world: Fabricated, name: string, address: string, parts: object = ASKS_FOR_B) {
  const pod = world.pod(name, { claim: CLAIM.name, vmi: "vm", ...parts });
  const one = { ...world.interface(pod), ifname: IFNAME };
  world.oracle.up(one, [address]);
  return one;
}

/** Whose claim has an address, some time after somebody used it. */
function known(address: string, on = ""): Fabricated {
  const world = new Fabricated();
  world.hold(address, CLAIM, { on });
  world.claim(CLAIM.name, [address]);
  world.step();
  world.nowMs += LATER_MS;
  return world;
}

test("it has what it asks for, or asks for another network", () => {
  for (const parts of [ASKS_FOR_B, {}, { asks: { red: ["10.1.0.9"], blue: [] } }]) {
    const world = known(B);
    answered(world, "launcher", B, parts);
    world.step();
  }
});

test("it has another one though nobody uses its claim", () => {
  const world = known(A);
  answered(world, "launcher", A);
  expect(() => world.step()).toThrow(expect.objectContaining({ kind: "not-as-asked" }));
});

test("it keeps what it has while somebody uses its claim, or did so just now", () => {
  const used = known(A, "node-1");
  answered(used, "target", A);
  used.step();
  const left = known(A, "node-1");
  left.hold(A, CLAIM);
  left.step();
  answered(left, "next", A);
  left.step();
});

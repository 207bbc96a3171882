import { expect, test } from "vitest";
import { Fabricated } from "./fabricated.ts";

/** What the oracle finds where what a deleted claim had is not kept for its name. */

const A = "10.1.0.5/25";
const B = "10.1.0.6/25";
const CLAIM = { kind: "IPAMClaim", name: "vm" };
const AGAIN = { ...CLAIM, uid: "again-uid" };
/** Longer than an ADD looks, and than the slack of clocks, ms. */
const LATER_MS = 20_000;

/** The addresses of a claim that is gone, retained for a minute; some time ago. */
function retained(): Fabricated {
  const world = new Fabricated();
  world.hold(A, CLAIM);
  world.step();
  world.hold(A, CLAIM, { state: "Retained", until: world.nowMs + 60_000 });
  world.step();
  world.nowMs += LATER_MS;
  return world;
}

test.each<[string, string, (world: Fabricated) => void]>([
  ["nothing", "it goes to a claim of the name", (world) => world.hold(A, AGAIN)],
  ["retained-given", "a pod has it", (world) => world.hold(A, { name: "web" })],
  ["retained-given", "another claim has it", (world) => world.hold(A, { ...CLAIM, name: "db" })],
  ["retained-given", "another namespace's claim has it", (world) => world.hold(A, { ...AGAIN, namespace: "bank" })],
  ["retained-lost", "it is given back too soon", (world) => world.hold(A, CLAIM, { state: "Cooling" })],
  ["retained-lost", "its object is deleted", (world) => world.free(A)],
  [
    "nothing",
    "somebody has ordered that",
    (world) => {
      world.free(A);
      world.oracle.excused("blue", A, "release");
    },
  ],
  [
    "nothing",
    "its time is over",
    (world) => {
      world.nowMs += 60_000;
      world.hold(A, CLAIM, { state: "Cooling" });
    },
  ],
  [
    "retained-not-returned",
    "the claim made again has another",
    (world) => {
      world.hold(B, { ...CLAIM });
      world.claim("vm", [B]);
      world.oracle.up(world.interface(world.pod("web", { claim: "vm" })), [B]);
    },
  ],
  [
    "nothing",
    "the claim made again has it",
    (world) => {
      world.hold(A, CLAIM);
      world.claim("vm", [A]);
      world.oracle.up(world.interface(world.pod("web", { claim: "vm" })), [A]);
    },
  ],
])("%s: %s", (kind, _what, act) => {
  const world = retained();
  act(world);
  const step = () => world.step();
  if (kind === "nothing") expect(step).not.toThrow();
  else expect(step).toThrow(expect.objectContaining({ kind }));
});

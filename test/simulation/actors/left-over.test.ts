import { expect, test } from "vitest";
import type { World } from "../world.ts";
import { actAsTold } from "./people/left-over.ts";

const STUCK = "is being deleted since 2026-01-01T00:00:00Z and keeps 10.1.0.5/25 of network blue";

/** A world of nothing but claims that KubeVirt does not let go of; time passes at once. */
function worldOf(claims: readonly string[], patched: string[]): World {
  const objects = claims.map((name) => ({
    object: { metadata: { namespace: "shop", name, finalizers: ["kubevirt.io/persistent-ipam"] } },
  }));
  const timer = (_ms: number, fire: () => void) => {
    queueMicrotask(fire);
    return { cancel: () => {} };
  };
  const world = {
    clock: { timer },
    cluster: {
      etcd: { range: () => objects },
      admin: { patch: async (path: string) => void patched.push(path.slice(path.lastIndexOf("/") + 1)) },
    },
    story: { tell: () => {} },
    counts: { add: () => {} },
  };
  return world as unknown as World;
}

/** What `check` tells one time after the other, of claims; the last one for good. */
function checksOf(...times: readonly (readonly string[])[]) {
  let asked = 0;
  return async () => {
    const stuck = times[Math.min(asked, times.length - 1)] ?? [];
    asked += 1;
    const findings = stuck.map((name) => ({
      message: `claim shop/${name} ${STUCK}, though no pod names it`,
    }));
    return { kind: "answered" as const, body: { findings } };
  };
}

async function remaining(patched: string[], ...times: readonly (readonly string[])[]): Promise<number> {
  const told = await actAsTold(worldOf(["a", "b"], patched), checksOf(...times));
  return told.kind === "answered" ? told.body.findings.length : -1;
}

test("a finding that appears only after another one is fixed is fixed too", async () => {
  const patched: string[] = [];
  expect(await remaining(patched, ["a"], ["b"], [])).toBe(0);
  expect(patched).toEqual(["a", "b"]);
});

test("a finding that remains after its remedy is not handled a second time", async () => {
  const patched: string[] = [];
  expect(await remaining(patched, ["a"])).toBe(1);
  expect(patched).toEqual(["a"]);
});

test("without a finding that an operator can fix nothing is done", async () => {
  const patched: string[] = [];
  expect(await remaining(patched, ["of-nobody"])).toBe(1);
  expect(patched).toEqual([]);
});

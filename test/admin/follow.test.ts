import { beforeEach, expect, test } from "vitest";
import { follow } from "../../admin/cluster/follow.ts";
import type { Problem } from "../../admin/following.ts";
import { newAllocation } from "../../allocations/allocation-object.ts";
import type { AllocationView } from "../../allocations/records.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

/** What the page of a cluster follows: one list, one watch, and the networks. */

let time: VirtualTime;
let api: KubeInMemory;
let known: Map<string, string>;
let problem: Problem | null;
let synced: number;
let networks: () => Promise<[]>;

beforeEach(() => {
  time = new VirtualTime();
  api = new KubeInMemory(time.clock());
  known = new Map();
  problem = null;
  synced = 0;
  networks = async () => [];
});

function put(address: string, uid: string) {
  const owner = { kind: "Pod", namespace: "shop", name: uid, uid, interface: "net1" } as const;
  const made = newAllocation(
    "blue",
    parseInterfaceAddress(`${address}/24`),
    { owner, attachment: null },
    "2026-01-01T00:00:00Z",
  );
  return api.put(ALLOCATIONS_PATH, made);
}

async function following(act: (pass: (ms: number) => Promise<void>) => Promise<void>): Promise<void> {
  const clock = time.clock();
  const life = new AbortController();
  const heard = {
    networks: () => {},
    rowOf: ({ address, owner }: AllocationView) => `${address} ${owner.uid}`,
    upsert: (name: string, row: string) => known.set(name, row),
    gone: (name: string) => known.delete(name),
    synced: () => {
      synced += 1;
    },
    problem: (now: Problem | null) => {
      problem = now;
    },
  };
  await time.run(
    (async () => {
      const run = follow({ api, networks: () => networks() }, heard, life.signal);
      const pass = (ms: number) => new Promise<void>((resolve) => void clock.timer(ms, resolve));
      await pass(1_000);
      await act(pass);
      life.abort();
      await run;
    })(),
  );
}

test("reports what there is, then what comes and goes", async () => {
  put("10.0.0.1", "a");
  await following(async (pass) => {
    expect([[...known.values()], synced, problem]).toEqual([["10.0.0.1/24 a"], 1, null]);
    const second = put("10.0.0.2", "b");
    await pass(1_000);
    expect([...known.values()]).toContain("10.0.0.2/24 b");
    api.remove(`${ALLOCATIONS_PATH}/${second.metadata.name}`);
    await pass(1_000);
    expect([...known.values()]).toEqual(["10.0.0.1/24 a"]);
  });
});

test("an allocation that takes another's place stays", async () => {
  const first = put("10.0.0.1", "a");
  await following(async (pass) => {
    api.remove(`${ALLOCATIONS_PATH}/${first.metadata.name}`);
    put("10.0.0.1", "b");
    await pass(1_000);
    expect([...known.values()]).toEqual(["10.0.0.1/24 b"]);
  });
});

test("a server that is away is said to be, and what was known stays", async () => {
  put("10.0.0.1", "a");
  await following(async (pass) => {
    networks = () => Promise.reject(Object.assign(new Error("it is away"), { hint: "look at it" }));
    await pass(12_000);
    expect(problem).toEqual({ message: "it is away", hint: "look at it" });
    expect([...known.values()]).toEqual(["10.0.0.1/24 a"]);
    networks = async () => [];
    await pass(3_000);
    expect(problem).toBeNull();
  });
});

test("a user without the right to list allocations is told which right that is", async () => {
  const { ListRefused } = await import("../../kube/kube-api.ts");
  api.list = async () => {
    throw new ListRefused("ipallocations is forbidden", 403);
  };
  await following(async () => {
    expect(problem).toMatchObject({ hint: expect.stringContaining("list and watch ipallocations") });
  });
});

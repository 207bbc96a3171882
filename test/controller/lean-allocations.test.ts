import { expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import { type CachedAllocation, projectAllocation } from "../../claims/reasons/caches.ts";
import { LeanAllocations } from "../../controller/lean-allocations.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH, type IPAllocation } from "../../kube/objects.ts";
import { isoTime } from "../../platform/time.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const HOUR_MS = 3_600_000;

test("only an allocation that stays loses the record of who has written which field, once", async () => {
  const clock = new ManualClock();
  const api = new KubeInMemory(clock, "holdfast-controller");
  const created = (last: number, ageMs: number): string => {
    const one = parseInterfaceAddress(`10.0.0.${last}/24`);
    const pod = { kind: "Pod", namespace: "shop", name: "web", uid: `${last}`, interface: "net1" } as const;
    const object = newAllocation("blue", one, { owner: pod, attachment: null }, "t");
    const creationTimestamp = isoTime(clock.wallMs() - ageMs);
    const metadata = { ...object.metadata, creationTimestamp, managedFields: [{ manager: "holdfast" }] };
    return api.put(ALLOCATIONS_PATH, { ...object, metadata }).metadata.name;
  };
  const [old, young] = [created(1, 2 * HOUR_MS), created(2, HOUR_MS / 2)];
  const items = new Map<string, CachedAllocation>();
  const follow = () => {
    for (const [path, object] of api.objects)
      if (path.startsWith(ALLOCATIONS_PATH))
        items.set(object.metadata.name, projectAllocation(object as unknown as IPAllocation));
  };
  let writes = 0;
  api.before = ({ method }) => {
    if (method === "PATCH") writes += 1;
  };
  const idle = { now: null as string | null };
  const lean = new LeanAllocations({
    ...{ api, allocations: { known: true, items }, idle: () => idle.now },
    serverMs: () => clock.wallMs(),
  });
  const pass = async () => {
    follow();
    await lean.runPass(new AbortController().signal);
  };
  const recordsOf = (name: string) => api.at(`${ALLOCATIONS_PATH}/${name}`).metadata.managedFields;

  idle.now = "another one leads";
  await pass();
  expect(writes).toBe(0);
  idle.now = null;
  for (let times = 0; times < 3; times += 1) await pass();
  expect(writes).toBe(1);
  expect(recordsOf(old)).toBeUndefined();
  expect(recordsOf(young)).toHaveLength(1);
  clock.nowMs += HOUR_MS;
  await pass();
  expect(recordsOf(young)).toBeUndefined();
});

import { expect, test } from "vitest";
import { ownerOfClaim } from "../../ipam/owner.ts";
import { sleep } from "../../platform/time.ts";
import { attachKey, KeyedMutex, ownerKey } from "../../store/cluster/parts/keyed-mutex.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import { want } from "./subjects.ts";

const NEVER = Number.POSITIVE_INFINITY;

function mutex() {
  const time = new VirtualTime();
  const clock = time.clock();
  return { time, clock, turns: new KeyedMutex(clock) };
}

test("requests of one key go one at a time, in order of arrival; others do not wait for them", async () => {
  const { time, clock, turns } = mutex();
  const order: string[] = [];
  const go = async (name: string, key: string) => {
    const leave = await turns.enter(key, NEVER);
    order.push(`${name} in`);
    await sleep(clock, 10);
    order.push(`${name} out`);
    leave?.();
  };
  await time.run(Promise.all([go("a", "one"), go("b", "one"), go("other", "two")]));
  expect(order).toEqual(["a in", "other in", "a out", "b in", "other out", "b out"]);
});

test("a request whose turn has not come by its deadline gets none, and the next one still waits for the first", async () => {
  const { time, clock, turns } = mutex();
  const work = async () => {
    const leave = await turns.enter("one", NEVER);
    const late = await turns.enter("one", clock.monotonicMs() + 500);
    expect(late).toBeNull();
    expect(clock.monotonicMs()).toBe(500);
    let entered = false;
    const next = turns.enter("one", NEVER).then((leaveNext) => {
      entered = true;
      return leaveNext;
    });
    await sleep(clock, 1_000);
    expect(entered).toBe(false);
    leave?.();
    (await next)?.();
    const again = await turns.enter("one", clock.monotonicMs());
    expect(again).not.toBeNull();
  };
  await time.run(work());
});

test("a claim that is reserved for and the ADD that uses it take turns with each other", () => {
  const claim = { namespace: "shop", name: "vm1" };
  const ofAdd = attachKey(want("a", { claim: "vm1", pod: "launcher" }));
  expect(ofAdd).toBe(ownerKey(ownerOfClaim({ ...claim, uid: "1" })));
  expect(attachKey(want("a", { pod: "web-0" }))).toBe(
    ownerKey({ kind: "pod", namespace: "", name: "", uid: "web-0-uid", interface: "eth0" }),
  );
  expect(attachKey(want("a"))).toBeNull();
});

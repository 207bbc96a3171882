/** One instant bounds an ADD, however many things it waits for one after the other. */
import { expect, test } from "vitest";
import { AddWaiters } from "../../../claims/add-waiters.ts";
import { attachWithClaim } from "../../../cni/add-parts.ts";
import type { CniContext } from "../../../cni/context.ts";
import { refuse } from "../../../ipam/refusals.ts";
import { ALLOCATIONS_PATH } from "../../../kube/objects.ts";
import { sleep } from "../../../platform/time.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";
import { StoreNode } from "../../store/store-node.ts";
import { want } from "../../store/subjects.ts";

test("an ADD that waits behind another one of its owner is answered at its own deadline", async () => {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  let goOn = () => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  let reached = () => {};
  const isUnderWay = new Promise<void>((resolve) => {
    reached = resolve;
  });
  node.api.before = async ({ method, path }) => {
    if (method !== "POST" || path !== ALLOCATIONS_PATH) return;
    reached();
    await held;
  };
  const first = node.store.attach(want("a", { pod: "web-0" }));
  await isUnderWay;
  const late = await node.store.attach({
    ...want("b", { pod: "web-0" }),
    deadlineMs: node.clock.monotonicMs() + 20,
  });
  expect(late).toMatchObject({ kind: "refused", refusal: { code: "API_AWAY" } });
  goOn();
  expect(await first).toMatchObject({ kind: "attached" });
  await node.added(want("b", { pod: "web-0" }));
});

test("the wait for a claim ends with the time of the whole ADD", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  let attempts = 0;
  const store = {
    attach: async () => {
      attempts += 1;
      await sleep(clock, 1_000);
      return { kind: "refused", refusal: refuse("CLAIM_ABSENT", { claim: "shop/vm1" }) };
    },
  };
  const context = {
    clock,
    store,
    waiting: new AddWaiters(clock),
    addDeadlineMs: 9_000,
  } as unknown as CniContext;
  const asked = { ...want("a", { claim: "vm1" }), deadlineMs: 4_000 };
  const outcome = await time.run(attachWithClaim(context, asked, { recheckMs: 500 }));
  expect(outcome).toMatchObject({ kind: "refused", refusal: { code: "CLAIM_ABSENT" } });
  expect(attempts).toBe(3);
  expect(clock.monotonicMs()).toBe(4_000);
});

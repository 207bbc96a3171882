/** What the witness may end of attachments that a lost journal recovered from the API. */
import { expect, test } from "vitest";
import { Witness } from "../../daemon/witness.ts";
import { makeLog } from "../../platform/log.ts";
import { VirtualTime } from "../../platform/virtual-time.ts";
import type { Attachment } from "../../store/records.ts";

const GRACE_S = 20;

test("a recovered attachment whose pod is deleted by force is ended a whole grace later, however long it was known", async () => {
  const time = new VirtualTime();
  const clock = time.clock();
  const one = {
    id: 1,
    network: "blue",
    containerId: "c1",
    interface: "net1",
    netns: { path: "", id: "", seen: false },
    stamp: { bootId: "boot-1", us: 0 },
    pod: { namespace: "shop", name: "pod-1", uid: "7d9f3a52-0000-4000-8000-000000000001" },
  } as unknown as Attachment;
  const held = [one];
  let hasEnded = false;
  const witness = new Witness({
    store: {
      attachmentsAfter: (after) => held.filter(({ id }) => id > after),
      endAttachment: async () => held.pop() !== undefined,
    },
    clock,
    log: makeLog("silent", clock),
    machine: { bootId: "boot-1", namespaceIdAt: () => null },
    graceSeconds: GRACE_S,
    podHasEnded: async () => hasEnded,
  });
  const lookFor = async (seconds: number): Promise<void> => {
    for (let passed = 0; passed < seconds; passed += 5) {
      await time.run(witness.runPass());
      await time.run(new Promise<void>((resolve) => clock.timer(5_000, resolve)));
    }
  };
  await lookFor(5 * GRACE_S);
  hasEnded = true;
  await lookFor(GRACE_S);
  expect(held).toEqual([one]);
  await lookFor(10);
  expect(held).toEqual([]);
});

import { expect, test } from "vitest";
import { ALLOCATIONS_PATH } from "../../kube/objects.ts";
import { lastBeforeGap } from "../../store/cluster/agreement/unproven.ts";
import { StoreNode } from "./store-node.ts";
import { detachWant } from "./subjects.ts";

test("after a restart in a gap no new row has an id that the note of the gap names", async () => {
  const node = new StoreNode();
  await node.open();
  await node.settle();
  await node.addPods("a", "b", "c");
  // Nothing is given back by itself meanwhile.
  await node.store.agreement.over.stop();
  // Its row is leaving, and the youngest: the note names it.
  await node.store.detach(detachWant("c"));
  await node.store.agreement.gap.begin();
  const noted = lastBeforeGap(node.journalDirectory.ledger);
  // Somebody has given it back meanwhile, so the row goes without a release of this node's.
  for (const { spec, ...object } of [...node.api.objects.values()].filter((one) => one.spec?.owner?.name === "c"))
    node.api.put(ALLOCATIONS_PATH, {
      ...object,
      spec,
      status: { ...object.status, state: "Cooling", attachments: {} },
    });
  await node.store.agreement.over.drain();
  const { sql } = node.journalDirectory.ledger;
  for (const { id } of sql.deletedUses.all()) sql.forgetGone.run(id);
  expect(sql.lastUse.get()?.id).toBeLessThan(noted);
  await node.open();
  await node.addPods("d");
  const { ledger } = node.journalDirectory;
  expect(lastBeforeGap(ledger)).toBe(noted);
  expect(ledger.sql.lastUse.get()?.id).toBeGreaterThan(noted);
});

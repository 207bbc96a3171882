/** What a DEL leaves in the journal of a node without a cluster: the row of what it ended. */

import { afterEach, beforeEach, expect, test } from "vitest";
import type { StateDirectory } from "../../store/journal/state-directory.ts";
import { isOvertaken } from "../../store/journal/uses.ts";
import { detachWant, nextUs, type SqliteSubject, sqliteSubject, want } from "./subjects.ts";

let subject: SqliteSubject;

beforeEach(async () => {
  subject = await sqliteSubject();
});
afterEach(() => subject.close());

function ledger() {
  return (subject.store as unknown as { readonly directory: StateDirectory }).directory.ledger;
}

async function added(containerId: string): Promise<number> {
  const outcome = await subject.store.attach(want(containerId));
  if (outcome.kind !== "attached") throw new Error("refused");
  return outcome.attachment.id;
}

test("what a DEL ended is its memory: no other row, and nothing of it is in use or to be given back", async () => {
  const id = await added("a");
  const us = nextUs();
  await subject.store.detach(detachWant("a", { us }));
  expect(ledger().sql.over.all("a", "eth0")).toEqual([
    expect.objectContaining({ id, phase: "gone", deleted: 1, boot_us: us, ips: "[]", again: 0 }),
  ]);
  expect(subject.store.attachmentsAfter(0, 10)).toEqual([]);
  expect([us - 1, us].map((at) => isOvertaken(ledger(), want("a", { us: at })))).toEqual([true, false]);
  // The next one of its ID is another use.
  expect(await added("a")).not.toBe(id);
});

test.each([{ network: "blue" }, { network: null }])(
  "of many DELs of one container the newest is remembered, once for $network and for what it ended",
  async ({ network }) => {
    for (let round = 0; round < 4; round += 1) {
      await added("a");
      await subject.store.detach({ ...detachWant("a"), network });
    }
    const us = nextUs();
    await subject.store.detach({ ...detachWant("a", { us }), network });
    await subject.store.detach({ ...detachWant("a", { us: 1 }), network });
    const rows = ledger().sql.over.all("a", "eth0");
    expect(rows.filter(({ network_id: id }) => (id === null) === (network === null))).toEqual([
      expect.objectContaining({ boot_us: us }),
    ]);
    expect(isOvertaken(ledger(), want("a", { us: us - 1 }))).toBe(true);
  },
);

/** An address goes from hand to hand as fast as it can, while somebody asks all the time who has it. */
import { expect } from "vitest";
import { network, type ServedDaemon, test } from "../cni/fixtures.ts";
import { addressesIn, send, T } from "../cni/wire.ts";
import { askIdentity } from "./ask.ts";

const ROUNDS = 250;
const ASKERS = 4;
/** One address, which never cools down. */
const ONLY = network("blue", { subnets: "10.10.0.0/30", excludeSubnets: "10.10.0.2/32", cooldownSeconds: 0 });

/** What is true for certain at an instant: who has it; "nobody"; null: an ADD or DEL is under way. */
interface Truth {
  certain: string | null;
  changes: number;
}

/** Asks until told to end; returns how often it was told somebody or nobody for certain. */
async function ask(daemon: ServedDaemon, query: string, truth: Truth, over: { yet: boolean }): Promise<number> {
  let certain = 0;
  while (!over.yet) {
    const before = { ...truth };
    const { status, body } = await askIdentity(daemon, query);
    const told = status === 404 ? "nobody" : JSON.parse(body).identity?.pods[0]?.containerID;
    expect([200, 404], body).toContain(status);
    // Only if nothing was under way from before the question until after the answer.
    if (before.certain === null || before.changes !== truth.changes) continue;
    expect(told, `${query} while it was certain`).toBe(before.certain);
    certain += 1;
  }
  return certain;
}

test("an address that is used again is never answered with its former owner", async ({ daemon }) => {
  const truth: Truth = { certain: "nobody", changes: 0 };
  const over = { yet: false };
  const queries = ["address=10.10.0.1&network=blue&here=true", "address=10.10.0.1&here=true", "address=10.10.0.1"];
  const asking = Array.from({ length: ASKERS }, (_, index) =>
    ask(daemon, queries[index % queries.length] as string, truth, over),
  );
  const change = async (act: () => Promise<unknown>, then: string) => {
    truth.certain = null;
    truth.changes += 1;
    await act();
    truth.certain = then;
    // The very next question must know it; then the others may go on.
    for (const query of queries) {
      const { status, body } = await askIdentity(daemon, query);
      const told = status === 404 ? "nobody" : JSON.parse(body).identity.pods[0].containerID;
      expect(told, `${query}, first question afterwards`).toBe(then);
    }
  };
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      const containerId = `owner-${round}`;
      const add = () =>
        send(daemon, "ADD", { containerId, bootUs: T + 2 * round, config: ONLY }).then((answer) =>
          expect(addressesIn(answer)).toEqual(["10.10.0.1/30"]),
        );
      const del = () => send(daemon, "DEL", { containerId, bootUs: T + 2 * round + 1, config: ONLY });
      await change(add, containerId);
      await change(del, "nobody");
    }
  } finally {
    over.yet = true;
  }
  const certain = (await Promise.all(asking)).reduce((a, b) => a + b);
  expect(certain).toBeGreaterThan(ROUNDS);
});

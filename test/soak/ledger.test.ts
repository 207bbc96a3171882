import { expect, test } from "vitest";
import { type Answered, Ledger } from "./ledger.ts";

function answered(more: Partial<Answered>): Answered {
  return {
    ...{ network: "blue", ips: ["10.0.0.2/24"], owner: "pod-a", isClaim: false },
    ...{ node: "n1", container: "c1", ifname: "net1" },
    ...more,
  };
}

test("an address in two living containers is a violation, unless they are of one owner", () => {
  const ledger = new Ledger();
  ledger.answered(answered({}));
  ledger.answered(answered({ container: "c2" }));
  ledger.answered(answered({ container: "c3", owner: "pod-b", network: "red" }));
  expect(ledger.violations).toEqual([]);
  ledger.answered(answered({ container: "c4", owner: "pod-b", ips: ["10.0.0.9/24", "10.0.0.2/24"] }));
  expect(ledger.violations).toHaveLength(2);
  expect(ledger.violations[0]).toContain("10.0.0.2/24 belong to pod-a");
});

test("an address may be given to another when its container ends", () => {
  const ledger = new Ledger();
  ledger.answered(answered({}));
  ledger.ending("c1", "net1");
  ledger.answered(answered({ container: "c2", owner: "pod-b" }));
  expect(ledger.violations).toEqual([]);
  expect(ledger.living.map(({ container }) => container)).toEqual(["c2"]);
});

test("a claim keeps its address without a container, until it is let go", () => {
  const ledger = new Ledger();
  ledger.answered(answered({ owner: "claim", isClaim: true }));
  ledger.ending("c1", "net1");
  ledger.answered(answered({ container: "c2", owner: "thief" }));
  expect(ledger.violations).toEqual([expect.stringContaining("belong to claim")]);
  ledger.ending("c2", "net1");
  ledger.released("claim");
  ledger.answered(answered({ container: "c3", owner: "heir" }));
  expect(ledger.violations).toHaveLength(1);
});

test("a claim that is answered another address than before is a violation, and so is an answer without any", () => {
  const ledger = new Ledger();
  ledger.answered(answered({ owner: "claim", isClaim: true }));
  ledger.answered(answered({ owner: "claim", isClaim: true, container: "c2", ips: ["10.0.0.3/24"] }));
  expect(ledger.violations).toEqual([expect.stringContaining("the claim had 10.0.0.2/24 before")]);
  ledger.answered(answered({ owner: "pod-c", container: "c3", ips: [] }));
  expect(ledger.violations.at(-1)).toContain("no address");
});

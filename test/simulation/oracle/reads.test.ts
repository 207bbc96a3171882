import { expect, test } from "vitest";
import type { Asking, Charge, Retry } from "../world.ts";
import { judgeReads } from "./reads.ts";

const LIST: Asking = {
  verb: "list",
  resource: "network-attachment-definitions",
  selector: "",
  isCached: true,
};
const OF_NODE_7 = "node.ipam.holdfast.dev/c346d3879a2150f0";

const charge = (what: Partial<Asking>, more: Partial<Charge> = {}): Charge => ({
  client: "node-7",
  phase: "restart",
  what: { ...LIST, ...what },
  requests: 1,
  refused: 0,
  bytes: 1_000,
  ...more,
});

/** So many, each so long after the refusal, ms. */
const retries = (count: number, waitedMs: (at: number) => number, what: Partial<Asking> = {}): Retry[] =>
  Array.from({ length: count }, (_, at) => ({
    client: `node-${at}`,
    phase: "power-on",
    what: { ...LIST, ...what },
    waitedMs: waitedMs(at),
    retryAfterMs: 1_000,
  }));

function kindOf(charges: readonly Charge[], again: readonly Retry[] = []): string | null {
  try {
    judgeReads({ charges, retries: again });
    return null;
  } catch (thrown) {
    return (thrown as { readonly kind: string }).kind;
  }
}

test.each<[string | null, string, readonly Charge[]]>([
  [null, "all definitions, after a start", [charge({})]],
  [null, "its own pods", [charge({ resource: "pods", selector: "spec.nodeName=node-7" })]],
  [null, "its own allocations", [charge({ resource: "ipallocations", selector: OF_NODE_7 })]],
  [null, "an object", [charge({ verb: "watch", resource: "ipallocations", selector: "metadata.name=a" })]],
  [null, "everything, by a controller", [charge({ resource: "pods" }, { client: "controller-a" })]],
  ["reads-the-cluster", "all allocations", [charge({ resource: "ipallocations" })]],
  ["reads-the-cluster", "changes of all claims", [charge({ verb: "watch", resource: "ipamclaims" })]],
  ["reads-the-cluster", "pods of another node", [charge({ resource: "pods", selector: "spec.nodeName=node-8" })]],
  ["reads-the-cluster", "pods of a namespace", [charge({ resource: "pods", selector: "namespace shop" })]],
  ["lists-at-rest", "definitions, while nothing happens", [charge({}, { phase: "rest" })]],
  ["reads-too-much", "a megabyte in parts", [charge({}, { bytes: 600_000 }), charge({}, { bytes: 600_000 })]],
  ["asks-too-often", "one object in a loop", [charge({ verb: "GET" }, { requests: 1_000 })]],
])("%s: %s", (kind, _what, charges) => {
  expect(kindOf(charges)).toBe(kind);
});

test.each<[string | null, string, readonly Retry[]]>([
  [null, "retries that are spread", retries(60, (at) => 1_000 + at)],
  [null, "a few at the same moment", retries(10, () => 1_100)],
  [null, "a write soon after another one of that path", retries(1, () => 3, { verb: "PUT" })],
  ["retries-early", "a list that does not wait", retries(1, () => 200)],
  ["retries-together", "many at the same moment", retries(60, () => 1_100)],
])("%s: %s", (kind, _what, again) => {
  expect(kindOf([], again)).toBe(kind);
});

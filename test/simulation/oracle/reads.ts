import { createHash } from "node:crypto";
import type { Asking, Charge, Retry } from "../world.ts";
import { violation } from "./violation.ts";

/** What a node asks for follows what it uses. Everything here is of one node and one phase of a history. */
const BYTES_MAX = 1_000_000;
const REQUESTS_MAX = 500;
/** While nothing happens. */
const AT_REST = "rest";
/** Who has too many of them to be read by every node. */
const MANY: ReadonlySet<string> = new Set(["ipallocations", "ipamclaims", "pods"]);

/** What floating point and the clock of a process make of a time, ms. */
const EARLY_MS_MAX = 5;
/** So many retries show whether they come together. */
const RETRIES_MIN = 50;
/** Of these in the same millisecond after the time that the server has asked for. */
const SHARE_MAX = 0.25;

/** What everybody has asked of the API server. */
export interface Reads {
  readonly charges: readonly Charge[];
  readonly retries: readonly Retry[];
}

/** Throws Violation for what a node may not ask for, whatever the cluster holds. */
export function judgeReads({ charges, retries }: Reads): void {
  const ofNodes = charges.filter(({ client }) => isNode(client));
  for (const charge of ofNodes) checkSelector(charge);
  checkRest(ofNodes);
  checkSums(ofNodes);
  const again = retries.filter(({ client }) => isNode(client));
  for (const retry of again) checkPatience(retry);
  checkSpread(again);
}

const isNode = (client: string) => client.startsWith("node-");

/** Lists and watches of what a cluster has many of are of the node's own, or of one object. */
function checkSelector({ client, phase, what }: Charge): void {
  const { verb, resource, selector } = what;
  if ((verb !== "list" && verb !== "watch") || !MANY.has(resource)) return;
  if (selector === `spec.nodeName=${client}` || selector === labelOf(client)) return;
  if (selector.startsWith("metadata.name=")) return;
  throw violation("reads-the-cluster", `${client} asked for ${describe(what)} (${phase})`);
}

/** The label of what a node uses. */
function labelOf(node: string): string {
  const hash = createHash("sha256").update(node).digest("hex").slice(0, 16);
  return `node.ipam.holdfast.dev/${hash}`;
}

/** Copies that are followed are not read again, and nothing else is read at once either. */
function checkRest(charges: readonly Charge[]): void {
  const list = charges.find(({ phase, what }) => phase === AT_REST && what.verb === "list");
  if (list === undefined) return;
  const { client, what, requests } = list;
  throw violation("lists-at-rest", `${client} asked ${requests} times for ${describe(what)}, and nothing happened`);
}

function checkSums(charges: readonly Charge[]): void {
  const sums = new Map<string, { requests: number; bytes: number }>();
  for (const { client, phase, requests, bytes } of charges) {
    const key = `${client} (${phase})`;
    const sum = sums.get(key) ?? { requests: 0, bytes: 0 };
    sums.set(key, { requests: sum.requests + requests, bytes: sum.bytes + bytes });
  }
  for (const [who, { requests, bytes }] of sums) {
    if (bytes > BYTES_MAX) throw violation("reads-too-much", `${who} has read ${bytes} bytes`);
    if (requests > REQUESTS_MAX) throw violation("asks-too-often", `${who} has sent ${requests} requests`);
  }
}

/** Only one part of a daemon lists a kind, or follows it: another request of the same kind is the next attempt. */
function checkPatience({ client, phase, what, waitedMs, retryAfterMs }: Retry): void {
  if (what.verb !== "list" && what.verb !== "watch") return;
  if (waitedMs >= retryAfterMs - EARLY_MS_MAX) return;
  throw violation(
    "retries-early",
    `${client} asked for ${describe(what)} again after ${Math.round(waitedMs)} ms, not ${retryAfterMs} (${phase})`,
  );
}

/** Those who were refused together do not come back together. */
function checkSpread(retries: readonly Retry[]): void {
  const kinds = new Map<string, number[]>();
  for (const { what, phase, waitedMs, retryAfterMs } of retries) {
    const key = `${what.verb} ${what.resource} (${phase})`;
    const times = kinds.get(key) ?? [];
    times.push(Math.round(waitedMs - retryAfterMs));
    kinds.set(key, times);
  }
  for (const [kind, times] of kinds) {
    if (times.length < RETRIES_MIN) continue;
    const together = mostOften(times);
    if (together.count <= times.length * SHARE_MAX) continue;
    throw violation(
      "retries-together",
      `${together.count} of ${times.length} retries of ${kind} came ${together.value} ms after the time that was asked for`,
    );
  }
}

function mostOften(values: readonly number[]): { readonly value: number; readonly count: number } {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].reduce((most, [value, count]) => (count > most.count ? { value, count } : most), {
    value: 0,
    count: 0,
  });
}

function describe({ verb, resource, selector }: Asking): string {
  return `a ${verb} of ${selector === "" ? "all " : ""}${resource}${selector === "" ? "" : ` by ${selector}`}`;
}

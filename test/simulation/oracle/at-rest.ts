import { checkNeeds, checkOwnerPods, checkProjections } from "./claims/at-rest.ts";
import type { Wants } from "./claims/wants.ts";
import type { Interfaces } from "./interfaces.ts";
import { checkMachines, type Refusals } from "./liveness.ts";
import type { NetworkCounts } from "./network-counts.ts";
import type { OracleParts } from "./oracle-parts.ts";
import type { Possession, PossessionParts } from "./possession.ts";
import { checkReasons } from "./reasons.ts";
import { NETWORKS } from "./view.ts";
import { violation } from "./violation.ts";

/** A controller renews its lease every few seconds, ms. */
const RENEWED_MS = 60_000;
/**
 * In peace somebody still starts and ends: what is wrong is looked at so often, with a pause between, ms, and until one
 * look finds the same as the one before it. What has only now begun to be wrong, like a count that is shown three
 * seconds later, may still mend itself.
 */
const LOOKS = 6;
const LOOKS_MAX = 12;
const PAUSE_MS = 3_000;

export interface RestParts {
  readonly outside: OracleParts;
  readonly knowledge: PossessionParts;
  readonly possession: Possession;
  readonly counts: NetworkCounts;
  readonly refusals: Refusals;
  readonly wants: Wants;
  /** When a controller renewed its lease last, ms. */
  renewedMs(): number;
}

/** What must be true when nothing has gone wrong for longer than every grace. Throws Violation. */
export async function checkAtRest(parts: RestParts): Promise<void> {
  let before = "";
  for (let look = 1; ; look += 1) {
    try {
      return await checkOnce(parts);
    } catch (thrown) {
      const what = (thrown as Error).message.replaceAll(/[\d.]+ s\b/g, "some time");
      if (look === LOOKS_MAX || (look >= LOOKS && what === before)) throw thrown;
      before = what;
      await parts.outside.pause(PAUSE_MS);
    }
  }
}

async function checkOnce({
  outside,
  knowledge,
  possession,
  counts,
  refusals,
  wants,
  renewedMs,
}: RestParts): Promise<void> {
  const { etcd, machines, controllers, nowMs, restMsMax } = outside;
  refusals.check(knowledge, (network) => isFull(network, outside), nowMs());
  await checkMachines(machines(), (node, message) => isForfeited(node, message, knowledge.interfaces));
  if (controllers().length > 0 && nowMs() - renewedMs() > RENEWED_MS)
    throw violation("not-ready", `no controller has held the lease since ${(renewedMs() / 1_000).toFixed(3)} s`);
  const upNodes = new Set(machines().flatMap(({ name, isUp }) => (isUp ? [name] : [])));
  possession.checkLists();
  checkProjections(knowledge, etcd, wants);
  checkOwnerPods(knowledge, etcd);
  checkNeeds(knowledge, etcd);
  // One that follows no pods excuses nothing.
  const known = controllers().map((one) => one.knowsSinceMs("pods"));
  const knownSinceMs = Math.max(0, ...known.filter(Number.isFinite));
  checkReasons({ ...knowledge, etcd, wants, upNodes, nowMs: nowMs(), restMsMax, knownSinceMs });
  counts.check(etcd, knowledge.allocations);
  for (const place of possession.open) {
    const who = possession.whoLacks(place);
    if (who !== null) throw violation("untold-loss", `${who}, and nobody was told`);
  }
}

/** By its own word, whose counts are looked at too. Of several ranges each may be full. */
function isFull(network: string, { etcd }: OracleParts): boolean {
  const found = etcd.range(NETWORKS, "").find(({ object }) => object.spec?.network === network);
  const { free, subnets = "" } = found?.object.status ?? {};
  return free === "0" || subnets.includes(",");
}

/** Whether it is about an address that a container of the node has lost, and was told so. */
function isForfeited(node: string, message: string, interfaces: Interfaces): boolean {
  for (const { one, ips, places, forfeited } of interfaces.all()) {
    if (one.node !== node || forfeited.size === 0) continue;
    if (ips.some((ip, index) => forfeited.has(places[index] ?? "") && message.includes(ip))) return true;
  }
  return false;
}

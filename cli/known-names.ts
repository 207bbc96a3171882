import type { Clock } from "../platform/time.ts";
import type { Client, Query } from "./client.ts";
import { CommandError } from "./failure.ts";
import { podName } from "./holder.ts";
import { allAllocations, allOf, pagesOf } from "./pages.ts";

/** Names that differ in so many letters, or in a third of them, are taken for a slip. */
const DISTANCE_MAX = 3;

/** `there is no network blu; did you mean blue?`, where a name is not one of a network. */
export async function refuseUnknownNetwork(client: Client, name: string): Promise<void> {
  const { items } = await client.get("/v1/networks");
  const known = items.map((network) => network.name);
  if (known.includes(name)) return;
  throw new CommandError(`there is no network ${name}${didYouMean(name, known)}`, {
    hint: "holdfast networks shows those that there are",
    code: "NOT_FOUND",
  });
}

/**
 * Throws when a filter names what does not exist: pods, VMs, nodes and clusters are known by the addresses that they
 * have; claims also without any.
 */
export async function refuseUnknownFilters(clock: Clock, client: Client, filter: Query): Promise<void> {
  const { network, claim, pod, vm, node, cluster } = filter;
  const others = { pod, vm, node, cluster };
  if (network !== undefined) await refuseUnknownNetwork(client, network);
  const all = await allAllocations(clock, client, {});
  const names: Readonly<Record<string, () => readonly string[]>> = {
    pod: () =>
      all.flatMap(({ owner, attachments }) => [
        ...(owner.kind === "pod" ? [`${owner.namespace}/${owner.name}`] : []),
        ...attachments.flatMap(({ pod }) => (pod === null ? [] : [podName(pod)])),
      ]),
    vm: () => all.flatMap(({ owner, vm }) => (vm === null ? [] : [`${owner.namespace}/${vm.name}`])),
    node: () => all.flatMap(({ attachments }) => attachments.map(({ node }) => node)),
    cluster: () => all.flatMap(({ owner }) => (owner.cluster ? [`${owner.namespace}/${owner.cluster}`] : [])),
  };
  for (const [kind, name] of Object.entries(others))
    if (name !== undefined) refuseUnknown(kind, name, names[kind]?.() ?? []);
  if (claim === undefined) return;
  const claims = await allOf(pagesOf(clock, client, "/v1/claims", {}));
  refuseUnknown("claim", claim, [
    ...claims.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`),
    ...all.flatMap(({ owner }) => (owner.kind === "pod" ? [] : [`${owner.namespace}/${owner.name}`])),
  ]);
}

/** `known`: with their namespaces; a bare name matches in any. */
function refuseUnknown(kind: string, name: string, known: readonly string[]): void {
  const bare = (text: string) => text.slice(text.indexOf("/") + 1);
  const names = new Set(name.includes("/") ? known : known.map(bare));
  if (names.has(name)) return;
  const what = kind === "claim" ? `claim ${name}` : `${kind === "vm" ? "VM" : kind} ${name} with an address`;
  throw new CommandError(`there is no ${what}${didYouMean(name, names)}`, {
    hint: `holdfast list shows every address with its holder and node`,
    code: "NOT_FOUND",
  });
}

/** ` Did you mean X?`, or nothing when no known name is close. */
function didYouMean(name: string, known: Iterable<string>): string {
  let best: { readonly name: string; readonly distance: number } | null = null;
  for (const one of known) {
    const distance = one.includes(name) && name.length > 2 ? 1 : editDistance(name, one);
    if (best === null || distance < best.distance) best = { name: one, distance };
  }
  if (best === null || best.distance > Math.max(1, Math.min(DISTANCE_MAX, Math.floor(name.length / 3)))) return "";
  return `; did you mean ${best.name}?`;
}

/** Levenshtein's. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const replaced = (row[j - 1] as number) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[other.length] as number;
}

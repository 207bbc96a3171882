/** What must hold after every fault, seen from outside, through the socket. */
import { expect } from "vitest";
import type { AllocationView, NetworkView } from "../../allocations/records.ts";
import type { Finding } from "../../ipam/finding.ts";
import type { TestDaemon } from "../harness/daemon.ts";

export async function allAllocations(daemon: TestDaemon): Promise<AllocationView[]> {
  const items: AllocationView[] = [];
  for (let token = ""; ; ) {
    const answer = await daemon.get(`/v1/allocations?limit=5000${token && `&continue=${token}`}`);
    expect(answer.status, answer.body).toBe(200);
    const page = answer.json() as { items: AllocationView[]; continue?: string };
    items.push(...page.items);
    if (page.continue === undefined) return items;
    token = page.continue;
  }
}

/** `address → container IDs` of what is bound on a network, with the prefix lengths cut off. */
export async function boundOn(daemon: TestDaemon, network: string): Promise<Map<string, string[]>> {
  const bound = (await allAllocations(daemon)).filter((one) => one.network === network && one.state === "Bound");
  return new Map(bound.map((one) => [bare(one.address), one.attachments.map((user) => user.containerID)]));
}

/** The container IDs attached to a network, sorted. */
export async function attachedTo(daemon: TestDaemon, network: string): Promise<string[]> {
  return [...new Set([...(await boundOn(daemon, network)).values()].flat())].sort();
}

export async function networksOf(daemon: TestDaemon): Promise<NetworkView[]> {
  const answer = await daemon.get("/v1/networks");
  expect(answer.status, answer.body).toBe(200);
  return (answer.json() as { items: NetworkView[] }).items;
}

/** I1 to I5 by the daemon's own check, and once more from what it lists: its counts are those of its rows. */
export async function expectSound(daemon: TestDaemon): Promise<void> {
  const answer = await daemon.get("/v1/check");
  expect(answer.status, answer.body).toBe(200);
  // A full disk, or a start under way, says nothing against what is recorded.
  const { findings } = answer.json() as { findings: Finding[] };
  expect(findings.filter(({ invariant }) => invariant !== "ready")).toEqual([]);
  const [allocations, networks] = [await allAllocations(daemon), await networksOf(daemon)];
  const bound = allocations.filter((one) => one.state === "Bound");
  const places = bound.map((one) => `${one.network} ${bare(one.address)}`);
  expect(new Set(places).size, "addresses listed twice").toBe(places.length);
  for (const network of networks) {
    const counted = network.ranges.reduce((sum, range) => sum + Number(range.allocated), Number(network.outside));
    expect(counted, `counts of ${network.name}`).toBe(bound.filter((one) => one.network === network.name).length);
  }
}

/** `ips` of an ADD's answer, as it was written: repeats must give the same bytes. */
export function ipsIn(body: string): string {
  return JSON.stringify((JSON.parse(body) as { ips: unknown }).ips);
}

export function addressesIn(body: string): string[] {
  return (JSON.parse(body) as { ips: { address: string }[] }).ips.map((ip) => bare(ip.address));
}

export function bare(cidr: string): string {
  return cidr.split("/")[0] as string;
}

import type { ListenerPlan } from "./plan.ts";
import type { PortMemory } from "./port-memory.ts";
import { run } from "./run.ts";

/** Address to MAC of a network's local VMs whose MAC is known. Two answers for one address are none. */
export function neighboursOf(
  plan: ListenerPlan,
  memory: Pick<PortMemory, "portsOf">,
): ReadonlyMap<string, string> {
  const found = new Map<string, string | null>();
  for (const attachment of plan.attachments) {
    const ports = memory.portsOf(plan.network, attachment);
    const mac = macText(attachment.mac) ?? (ports.length === 1 ? macText(ports[0]?.mac ?? null) : null);
    if (ports.length === 0 || mac === null) continue;
    for (const address of attachment.addresses) {
      const earlier = found.get(address);
      found.set(address, earlier === undefined || earlier === mac ? mac : null);
    }
  }
  return new Map([...found].filter((entry): entry is [string, string] => entry[1] !== null));
}

/** For `ip -batch`: from the entries that are there to those that are wanted. */
export function neighbourCommands(
  present: ReadonlyMap<string, string>,
  wanted: ReadonlyMap<string, string>,
): readonly string[] {
  return [
    ...[...present.keys()]
      .filter((address) => !wanted.has(address))
      .map((address) => `neigh del ${address} dev eth0`),
    ...[...wanted]
      .filter(([address, mac]) => present.get(address) !== mac)
      .map(([address, mac]) => `neigh replace ${address} lladdr ${mac} dev eth0 nud permanent`),
  ];
}

/** The permanent entries that the kernel has. */
export async function presentNeighbours(namespace: string): Promise<ReadonlyMap<string, string>> {
  const shown = await run("ip", ["-n", namespace, "-json", "-4", "neigh", "show", "nud", "permanent"]);
  if (shown.code !== 0) return new Map();
  const entries = JSON.parse(shown.stdout || "[]") as { dst: string; lladdr?: string }[];
  return new Map(entries.map(({ dst, lladdr = "" }) => [dst, lladdr]));
}

/** Lower case with colons, from any of the usual spellings; null: none. */
function macText(mac: string | null): string | null {
  const digits = mac?.toLowerCase().replaceAll(/[:.-]/g, "") ?? "";
  return /^[0-9a-f]{12}$/.test(digits) ? (digits.match(/../g) as string[]).join(":") : null;
}

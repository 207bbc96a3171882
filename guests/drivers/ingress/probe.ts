import { PORT_ADDRESS_FIRST, type PortAddress } from "../../kernel/port-address.ts";
import { run } from "../../kernel/run.ts";
import type { Probe } from "../driver.ts";
import { linesBetween } from "../nft/table-state.ts";
import { FORM, RulesetBuilder } from "./ruleset.ts";

const NO_EGRESS =
  "the kernel has no egress hook in nftables' family netdev (it came with 5.16): a port that is not served can claim " +
  "169.254.169.254 towards guests that are";

/** What is tried, in this order, when the whole does not work: the first that fails is named. */
const PARTS: readonly (readonly [text: string, why: string])[] = [
  ["table netdev t {}", "the kernel has no nftables, or none with family netdev (NF_TABLES_NETDEV)"],
  [
    'table netdev t { chain c { type filter hook ingress device "probe0" priority -500; policy accept; }; }',
    "the kernel has no ingress hook in nftables' family netdev (NETFILTER_INGRESS)",
  ],
  [
    'table netdev t { chain c { type filter hook ingress device "probe0" priority -500; policy accept; fwd to "probe1"; }; }',
    "the kernel cannot forward frames in nftables' family netdev (NFT_FWD_NETDEV)",
  ],
];

/** Loads the rules on a pair of links in a namespace of its own, which ends with that. */
export async function probeIngress(): Promise<{ readonly result: Probe; readonly egress: boolean }> {
  const no = (why: string) => ({ result: { ok: false, why } as const, egress: false });
  const made = await inNamespace("");
  if (made.code !== 0)
    return no(`a network namespace and a pair of links cannot be made, or nft is missing: ${made.said}`);
  if ((await inNamespace(sample(true))).code === 0) return { result: { ok: true, notes: [] }, egress: true };
  const without = await inNamespace(sample(false));
  if (without.code === 0) return { result: { ok: true, notes: [NO_EGRESS] }, egress: false };
  for (const [text, why] of PARTS) if ((await inNamespace(text)).code !== 0) return no(why);
  return no(`nft refuses the rules: ${without.said}`);
}

export async function hasEgressHook(): Promise<boolean> {
  return (await inNamespace(sample(true))).code === 0;
}

async function inNamespace(text: string) {
  const script = "ip link add name probe0 type veth peer name probe1; exec nft -f -";
  const ran = await run("unshare", ["--net", "sh", "-ec", script], text);
  return { code: ran.code, said: (ran.stderr.trim() || "failed without a word").slice(0, 300) };
}

function sample(egress: boolean): string {
  const mac = "02:00:00:00:00:01";
  const port = { driver: "ingress", link: "probe1", ifindex: 2, door: "main" } as const;
  const address = PORT_ADDRESS_FIRST as PortAddress;
  const door = { outer: "probe0", ifindex: 3 };
  const builder = new RulesetBuilder({ door, serviceMac: mac, secretMac: mac, doorMac: mac, egress });
  const ruleset = builder.build([{ address, port, mac }]);
  return linesBetween({ form: FORM, table: "t" }, null, ruleset)
    .map(({ text }) => `${text}\n`)
    .join("");
}

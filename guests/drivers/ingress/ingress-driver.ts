/*
 * guests/drivers/ingress/: takes frames of guests at the ingress hook of their host-side links
 *
 *   ingress-driver   the driver, and what the kernel can do
 *   ruleset          a table of family netdev: rules for all ports, and a few words for each
 */

import { InTurn } from "../../../platform/single-flight.ts";
import type { Clock } from "../../../platform/time.ts";
import { PORT_ADDRESS_FIRST, type PortAddress } from "../../kernel/port-address.ts";
import { run } from "../../kernel/run.ts";
import type {
  AdmittedPort,
  DatapathDriver,
  HostSideLink,
  ListenerDoors,
  PortRef,
  Probe,
  SyncResult,
} from "../driver.ts";
import { isPort } from "../nft/links.ts";
import { NftTable } from "../nft/nft-table.ts";
import { linesBetween } from "../nft/table-state.ts";
import { FORM, RulesetBuilder, shutRuleset } from "./ruleset.ts";

const DOOR = "main";

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

export interface IngressParts {
  /** Name of the table in family netdev. */
  readonly table: string;
  readonly doors: ListenerDoors;
  readonly clock: Clock;
}

interface Door {
  readonly link: string;
  readonly ifindex: number;
  readonly builder: RulesetBuilder;
}

export class IngressDriver implements DatapathDriver {
  readonly kind = "ingress";
  readonly #parts: IngressParts;
  readonly #table: NftTable;
  /** null: not known yet. */
  #egress: boolean | null = null;
  /** Whether the kernel has what it takes; null: not known yet. */
  #able: boolean | null = null;
  #door: Door | null = null;
  readonly #turns = new InTurn();

  constructor(parts: IngressParts) {
    this.#parts = parts;
    this.#table = new NftTable(FORM, parts.table);
  }

  async probe(): Promise<Probe> {
    const probe = await probeIngress();
    this.#egress = probe.egress;
    this.#able = probe.result.ok;
    return probe.result;
  }

  async claim(link: HostSideLink): Promise<PortRef | null> {
    if (!isPort(link)) return null;
    if (!(this.#able ?? (await this.probe()).ok)) return null;
    return { driver: this.kind, link: link.name, ifindex: link.ifindex, door: DOOR };
  }

  sync(ports: readonly AdmittedPort[], again: boolean, hurry?: AbortSignal): Promise<SyncResult> {
    return this.#turns.run(() => this.#sync(ports, again, hurry));
  }

  watch(lost: () => void): void {
    this.#table.watch(this.#parts.clock, lost);
  }

  close(): void {
    this.#table.close();
  }

  shut(ports: readonly AdmittedPort[], unlessThere: boolean): Promise<void> {
    return this.#turns.run(async () => {
      this.#door = null;
      if (unlessThere && ports.length === 0) return;
      this.#egress ??= await hasEgressHook();
      const egress = this.#egress;
      await this.#table.shut(ports, (chosen) => shutRuleset(chosen, egress), unlessThere);
    });
  }

  remove(): Promise<void> {
    return this.#turns.run(() => {
      // It goes with the listener.
      this.#door = null;
      return this.#table.remove();
    });
  }

  async #sync(ports: readonly AdmittedPort[], again: boolean, hurry?: AbortSignal): Promise<SyncResult> {
    if (ports.length === 0) {
      await this.#table.remove();
      return { failed: new Map(), repaired: false };
    }
    const door = again || this.#door === null ? await this.#openDoor() : this.#door;
    const content = { build: (chosen: readonly AdmittedPort[]) => door.builder.build(chosen), links: [door] };
    return this.#table.sync(ports, content, again, hurry);
  }

  async #openDoor(): Promise<Door> {
    const { serviceMac, secretMac, doorMac } = this.#parts.doors;
    const { outer, ifindex } = await this.#parts.doors.ensure(DOOR);
    if (this.#door?.link === outer && this.#door.ifindex === ifindex) return this.#door;
    this.#egress ??= await hasEgressHook();
    const parts = { door: { outer, ifindex }, serviceMac, secretMac, doorMac, egress: this.#egress };
    this.#door = { link: outer, ifindex, builder: new RulesetBuilder(parts) };
    return this.#door;
  }
}

/** Loads the rules on a pair of links in a namespace of its own, which ends with that. */
async function probeIngress(): Promise<{ readonly result: Probe; readonly egress: boolean }> {
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

async function hasEgressHook(): Promise<boolean> {
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

/*
 * guests/drivers/ingress/: takes frames of guests at the ingress hook of their host-side links
 *
 *   ingress-driver   the driver
 *   ruleset          a table of family netdev: rules for all ports, and a few words for each
 *   probe            what the kernel can do
 */

import type { Clock } from "../../../platform/time.ts";
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
import { hasEgressHook, probeIngress } from "./probe.ts";
import { FORM, RulesetBuilder, shutRuleset } from "./ruleset.ts";

const DOOR = "main";

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

/** Every interface with a host-side veth or tap, whatever that is plugged into. */
export class IngressDriver implements DatapathDriver {
  readonly kind = "ingress";
  readonly #parts: IngressParts;
  readonly #table: NftTable;
  /** null: not known yet. */
  #egress: boolean | null = null;
  /** Whether the kernel has what it takes; null: not known yet. */
  #able: boolean | null = null;
  #door: Door | null = null;
  /** The work at hand and all that waits for it. */
  #turn: Promise<unknown> = Promise.resolve();

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
    return this.#inTurn(() => this.#sync(ports, again, hurry));
  }

  watch(lost: () => void): void {
    this.#table.watch(this.#parts.clock, lost);
  }

  close(): void {
    this.#table.close();
  }

  shut(ports: readonly AdmittedPort[], unlessThere: boolean): Promise<void> {
    return this.#inTurn(async () => {
      this.#door = null;
      if (unlessThere && ports.length === 0) return;
      this.#egress ??= await hasEgressHook();
      const egress = this.#egress;
      await this.#table.shut(ports, (chosen) => shutRuleset(chosen, egress), unlessThere);
    });
  }

  remove(): Promise<void> {
    return this.#inTurn(() => {
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

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(work);
    this.#turn = turn.catch(() => {});
    return turn;
  }
}

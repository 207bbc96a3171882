import { dirname } from "node:path";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { OvsdbClient, type OvsdbOperation } from "./ovsdb-client.ts";
import { integers, optionalInteger, optionalText, text, textMap, uuids } from "./ovsdb-values.ts";

/** How long it is waited for the first state, and for the row of a port that is there, ms. */
const CONTACT_MS_MAX = 2_000;
const ROW_MS_MAX = 1_000;

const TABLES = {
  Open_vSwitch: {
    ovs_version: optionalText,
    cur_cfg: optionalInteger,
    external_ids: textMap,
    other_config: textMap,
  },
  Bridge: { name: text, datapath_type: text, ports: uuids },
  Port: {
    name: text,
    interfaces: uuids,
    tag: optionalInteger,
    trunks: integers,
    vlan_mode: optionalText,
    external_ids: textMap,
  },
  Interface: {
    name: text,
    type: text,
    ofport: optionalInteger,
    ifindex: optionalInteger,
    error: optionalText,
    external_ids: textMap,
  },
};

/** A link in the node's own namespace, or what has none (`type` says it), as a port of a bridge. */
export interface OvsPort {
  readonly link: string;
  /** Of the row in Interface, which is another one when the port was added anew. */
  readonly interfaceUuid: string;
  readonly portUuid: string;
  /** ``: a link; `internal`, `patch`, `dpdkvhostuserclient`, `geneve`, … */
  readonly type: string;
  readonly bridge: string;
  readonly bridgeUuid: string;
  readonly datapath: "kernel" | "userspace";
  /** Number in OpenFlow; null: it has none (yet). */
  readonly ofport: number | null;
  /** Index of the link that the switch has open; null: none. */
  readonly ifindex: number | null;
  readonly error: string | null;
  /** VLAN of frames without a tag; 0: none. */
  readonly untaggedVlan: number;
  /** Are frames with a tag its own? */
  readonly isTrunk: boolean;
  /**
   * By OVN-Kubernetes: `sandbox` (container ID), `iface-id`, `iface-id-ver` (pod UID), `attached_mac`, `ip_addresses`,
   * `k8s.ovn.org/network`, `k8s.ovn.org/nad`, `ovn-installed`.
   */
  readonly externalIds: ReadonlyMap<string, string>;
  /** By ovs-cni: `contPodUid`, `contNetns`, `contIface`. */
  readonly portExternalIds: ReadonlyMap<string, string>;
}

export interface OvsPortsOptions {
  /** Of ovsdb-server; the sockets of the bridges are in the same directory. */
  readonly socket: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** This node's Open vSwitch ports, of which there may be none: a copy of its database that follows every change. */
export class OvsPorts {
  readonly #socket: string;
  readonly #clock: Clock;
  readonly #client: OvsdbClient<typeof TABLES>;
  readonly #listeners = new Set<() => void>();
  #ports: ReadonlyMap<string, OvsPort> | null = null;

  constructor({ socket, clock, log }: OvsPortsOptions) {
    this.#socket = socket;
    this.#clock = clock;
    const changed = () => {
      this.#ports = null;
      for (const listener of [...this.#listeners]) listener();
    };
    this.#client = new OvsdbClient({ socket, database: "Open_vSwitch", tables: TABLES, clock, log, changed });
  }

  start(): void {
    this.#client.start();
  }

  close(): void {
    this.#client.close();
  }

  /** Is there an Open vSwitch, and what is said here true now? */
  get connected(): boolean {
    return this.#client.connected;
  }

  /** Waits until it is known at first whether there is an Open vSwitch. */
  ready(): Promise<void> {
    return this.#client.attempt(CONTACT_MS_MAX);
  }

  /** Where ovs-ofctl finds a bridge. */
  bridgeSocket(bridge: string): string {
    return `unix:${dirname(this.#socket)}/${bridge}.mgmt`;
  }

  /** Calls back after every change; returns what ends that. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** By link. Of a link that is a port of two bridges, which is an error, one. */
  ports(): ReadonlyMap<string, OvsPort> {
    this.#ports ??= new Map([...this.#readPorts()].map((port) => [port.link, port]));
    return this.#ports;
  }

  bridges(): ReadonlyMap<string, { readonly uuid: string; readonly datapath: OvsPort["datapath"] }> {
    const rows = [...this.#client.rows("Bridge")];
    return new Map(rows.map(([uuid, row]) => [row.name, { uuid, datapath: datapathOf(row.datapath_type) }]));
  }

  /** Version of ovs-vswitchd as it says; null: unknown. */
  version(): string | null {
    return this.#root()?.ovs_version ?? null;
  }

  /** Does the userspace datapath take care of checksums that guests leave to their network card? */
  hasUserspaceTso(): boolean {
    return this.#root()?.other_config.get("userspace-tso-enable") === "true";
  }

  /** Does ovn-controller write the flows of this bridge? At its start it deletes those of everybody else. */
  isOfOvn(bridge: string): boolean {
    const ids = this.#root()?.external_ids ?? new Map<string, string>();
    if ([...ids.keys()].some((key) => key === "ovn-remote" || key.startsWith("ovn-remote-"))) {
      const names = [...ids].filter(([key]) => key === "ovn-bridge" || key === `ovn-bridge-${ids.get("system-id")}`);
      if ((names.length === 0 ? ["br-int"] : names.map(([, name]) => name)).includes(bridge)) return true;
    }
    return [...this.ports().values()].some(
      (port) => port.bridge === bridge && port.externalIds.has("iface-id") && port.externalIds.has("ovn-installed"),
    );
  }

  /**
   * The port of a link; null: it is of no bridge, or there is no Open vSwitch. Up to date even for a port that was
   * added a moment ago: asks the database. While that is away the ports are those of its last contact.
   */
  async find(link: string): Promise<OvsPort | null> {
    await this.ready();
    const known = this.ports().get(link);
    if (known !== undefined) return known;
    // Without its database nobody adds a port.
    if (!this.#client.connected) return null;
    const where = [["name", "==", link]];
    const select = { op: "select", table: "Interface", where, columns: ["name"] };
    const [found] = await this.#client.transact([select]);
    if ((found?.rows ?? []).length === 0) return null;
    return this.until(() => this.ports().get(link) ?? null, ROW_MS_MAX);
  }

  /** Waits until there is something, or for so long: null. */
  async until<T>(read: () => T | null, waitMs: number): Promise<T | null> {
    const now = read();
    if (now !== null) return now;
    return new Promise((resolve) => {
      const done = (value: T | null) => {
        timer.cancel();
        end();
        resolve(value);
      };
      const timer = this.#clock.timer(waitMs, () => done(read()));
      const end = this.onChange(() => {
        const value = read();
        if (value !== null) done(value);
      });
    });
  }

  /** Carries out a change, and waits until ovs-vswitchd has done what follows from it, or for so long. */
  async change(operations: readonly OvsdbOperation[], waitMs: number): Promise<void> {
    const mutations = [["next_cfg", "+=", 1]];
    const results = await this.#client.transact([
      ...operations,
      { op: "mutate", table: "Open_vSwitch", where: [], mutations },
      { op: "select", table: "Open_vSwitch", where: [], columns: ["next_cfg"] },
    ]);
    const next = Number(results.at(operations.length + 1)?.rows?.[0]?.next_cfg);
    await this.until(() => ((this.#root()?.cur_cfg ?? 0) >= next ? true : null), waitMs);
  }

  #root() {
    return [...this.#client.rows("Open_vSwitch").values()][0];
  }

  *#readPorts(): Generator<OvsPort> {
    const ports = this.#client.rows("Port");
    const interfaces = this.#client.rows("Interface");
    for (const [bridgeUuid, bridge] of this.#client.rows("Bridge"))
      for (const portUuid of bridge.ports) {
        const port = ports.get(portUuid);
        for (const interfaceUuid of port?.interfaces ?? []) {
          const row = interfaces.get(interfaceUuid);
          if (port === undefined || row === undefined) continue;
          yield {
            link: row.name,
            interfaceUuid,
            portUuid,
            type: row.type,
            bridge: bridge.name,
            bridgeUuid,
            datapath: datapathOf(bridge.datapath_type),
            ofport: row.ofport !== null && row.ofport > 0 ? row.ofport : null,
            ifindex: row.ifindex === 0 ? null : row.ifindex,
            error: row.error,
            untaggedVlan: port.vlan_mode === "trunk" ? 0 : (port.tag ?? 0),
            isTrunk: port.vlan_mode === null ? port.tag === null : port.vlan_mode !== "access",
            externalIds: row.external_ids,
            portExternalIds: port.external_ids,
          };
        }
      }
  }
}

/** Bridge.datapath_type: `` and `system` are the kernel's. */
function datapathOf(type: string): OvsPort["datapath"] {
  return type === "" || type === "system" ? "kernel" : "userspace";
}

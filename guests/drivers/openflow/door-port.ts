import { run } from "../../kernel/run.ts";
import { hostLink } from "../../kernel/sysfs.ts";
import type { OvsPort, OvsPorts } from "../../ovs/ovs-ports.ts";
import type { OvsdbOperation } from "../../ovs/ovsdb-client.ts";
import { toMap, toNamed, toUuids } from "../../ovs/ovsdb-values.ts";
import type { OpenDoor } from "../driver.ts";
import { DOOR_VLAN } from "./flow-text.ts";

/** By which a port of ours is known, after a crash too; its value is the tag of the run directory. */
const OWNER = "holdfast.dev/owner";
/** ovs-vswitchd gives a new port its number within some 50 ms. */
const NUMBER_MS_MAX = 5_000;

/** The listener's doors as ports of bridges. No other port is ever touched. */
export class DoorPorts {
  readonly #ovs: OvsPorts;
  readonly #tag: string;

  constructor(ovs: OvsPorts, tag: string) {
    this.#ovs = ovs;
    this.#tag = tag;
  }

  /** All that are there, also of an earlier process. */
  list(): readonly OvsPort[] {
    return [...this.#ovs.ports().values()].filter((port) => this.isOwn(port));
  }

  isOwn({ portExternalIds }: OvsPort): boolean {
    return portExternalIds.get(OWNER) === this.#tag;
  }

  /** Makes the door's outer end a port of the bridge, as planned. Resolves with its number; `isNew`: it was added. */
  async plug(
    bridge: string,
    { outer, ifindex, inner, namespace, made }: OpenDoor,
  ): Promise<{ readonly ofport: number; readonly isNew: boolean }> {
    const known = this.#ovs.ports().get(outer);
    const isPlanned = known !== undefined && !made && this.#isPlanned(known, bridge);
    if (!isPlanned) await this.#add(bridge, outer, known);
    await sendWholeChecksums(namespace, inner);
    const open = () => {
      const port = this.#ovs.ports().get(outer);
      const isOpen =
        port?.bridge === bridge && port.ifindex === ifindex && port.portUuid !== (isPlanned ? "" : known?.portUuid);
      return isOpen ? port.ofport : null;
    };
    const ofport = await this.#ovs.until(open, NUMBER_MS_MAX);
    if (ofport !== null) return { ofport, isNew: !isPlanned };
    const error = this.#ovs.ports().get(outer)?.error ?? "ovs-vswitchd does not answer";
    throw new Error(`the listener's link ${outer} is no port of ${bridge}: ${error}`);
  }

  /** Is the door the port of the bridge that has this number, as planned, and its link there? */
  isPlugged(bridge: string, ofport: number): boolean {
    return this.list().some(
      (port) =>
        port.ofport === ofport &&
        port.ifindex !== null &&
        port.ifindex === hostLink(port.link)?.ifindex &&
        this.#isPlanned(port, bridge),
    );
  }

  async unplug(port: OvsPort): Promise<void> {
    await this.#ovs.change([removal(port)], NUMBER_MS_MAX);
  }

  #isPlanned(port: OvsPort, bridge: string): boolean {
    const { untaggedVlan, isTrunk } = port;
    return this.isOwn(port) && port.bridge === bridge && untaggedVlan === DOOR_VLAN && !isTrunk;
  }

  async #add(bridge: string, outer: string, before: OvsPort | undefined): Promise<void> {
    const found = this.#ovs.bridges().get(bridge);
    if (found === undefined) throw new Error(`there is no bridge ${bridge}`);
    const ids = toMap([[OWNER, this.#tag]]);
    // Also a port of that name that somebody else made: the link is ours. Were it replaced in one transaction, the
    // switch would go on with the link that it has open, though that is gone.
    if (before !== undefined) await this.unplug(before);
    const operations = [
      { op: "insert", table: "Interface", "uuid-name": "link", row: { name: outer, external_ids: ids } },
      {
        op: "insert",
        table: "Port",
        "uuid-name": "door",
        row: {
          name: outer,
          interfaces: toNamed("link"),
          tag: DOOR_VLAN,
          vlan_mode: "access",
          external_ids: ids,
        },
      },
      mutation(found.uuid, "insert", toNamed("door")),
      { op: "comment", comment: "holdfast metadata-net: the listener's port" },
    ];
    await this.#ovs.change(operations, NUMBER_MS_MAX);
  }
}

function removal({ bridgeUuid, portUuid }: OvsPort): OvsdbOperation {
  return mutation(bridgeUuid, "delete", toUuids([portUuid]));
}

function mutation(bridge: string, mutator: "insert" | "delete", ports: unknown): OvsdbOperation {
  const where = [["_uuid", "==", ["uuid", bridge]]];
  return { op: "mutate", table: "Bridge", where, mutations: [["ports", mutator, ports]] };
}

/**
 * The userspace datapath hands frames on as it finds them: checksums that the sender leaves to its network card are
 * never computed, unless userspace-tso-enable is on. Only ethtool can tell the listener's end to compute its own.
 */
async function sendWholeChecksums(namespace: string, inner: string): Promise<void> {
  await run("ip", ["netns", "exec", namespace, "ethtool", "-K", inner, "tx", "off"]);
}

export async function hasEthtool(): Promise<boolean> {
  return (await run("ethtool", ["--version"])).code === 0;
}

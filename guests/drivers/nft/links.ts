import { existsSync, readFileSync } from "node:fs";
import type { PortAddress } from "../../kernel/port-address.ts";
import type { AdmittedPort, HostSideLink, PortRef } from "../driver.ts";

/** nft takes no other name in a device clause; a container names only links in its own namespace. */
const DEVICE_NAME = /^[A-Za-z0-9_.:@+-]{1,15}$/;
/** ARPHRD_ETHER */
const ETHERNET = "1";
const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/;

/** null: there is no link of that name. */
export function linkIndex(name: string): number | null {
  const text = readLinkFile(name, "ifindex");
  return text === null ? null : Number(text);
}

/** A file of /sys/class/net/NAME; null: it cannot be read. */
export function readLinkFile(name: string, file: string): string | null {
  try {
    return readFileSync(`/sys/class/net/${name}/${file}`, "utf8").trim();
  } catch {
    return null;
  }
}

/** Whether rules for frames can be put at the link. Throws an Error for the operator when its name is in the way. */
export function isPort({ name, kind }: HostSideLink): boolean {
  if ((kind !== "veth" && kind !== "tun") || readLinkFile(name, "type") !== ETHERNET) return false;
  if (!DEVICE_NAME.test(name))
    throw new Error(`the link ${JSON.stringify(name)} has a name that cannot be used in rules; rename it`);
  return true;
}

/** The ports whose links are there, the newer one of two with the same link. `known`: need not be looked at again. */
export function choosePorts(ports: readonly AdmittedPort[], known: (port: PortRef) => boolean) {
  const failed = new Map<PortAddress, string>();
  const byLink = new Map<number, AdmittedPort>();
  for (const admitted of ports) {
    const { address, port } = admitted;
    const why = (known(port) ? null : whyNot(port)) ?? whyMalformed(admitted);
    if (why !== null) {
      failed.set(address, why);
      continue;
    }
    const older = byLink.get(port.ifindex);
    if (older !== undefined) failed.set(older.address, `its link ${port.link} belongs to a newer attachment`);
    byLink.set(port.ifindex, admitted);
  }
  return { admitted: [...byLink.values()], failed };
}

function whyNot({ link, ifindex }: PortRef): string | null {
  const now = linkIndex(link);
  if (now === null) return `its link ${link} is gone`;
  if (now !== ifindex) return `its link ${link} was created again`;
  // nft would take the number for the name.
  if (existsSync(`/sys/class/net/${ifindex}`))
    return `there is a link named "${ifindex}", which is the index of ${link}; rename it`;
  return null;
}

/** What nft would refuse together with all other ports. */
function whyMalformed({ mac }: AdmittedPort): string | null {
  return MAC.test(mac) ? null : `its MAC ${JSON.stringify(mac)} is none`;
}

/** Links in the rules by index, and the names of all that are wanted there. */
export interface WatchedLinks {
  readonly byIndex: ReadonlyMap<number, string>;
  readonly names: ReadonlySet<string>;
}

/** Whether a line of `ip -o monitor link` says that one of the links went or was renamed, or that a name was taken. */
export function concernsLinks(line: string, { byIndex, names }: WatchedLinks): boolean {
  const [, deleted, index, rest] = /^(Deleted )?(\d+): (.*)$/.exec(line) ?? [];
  if (index === undefined || rest === undefined) return false;
  const name = byIndex.get(Number(index));
  const isCalled = (one: string) => rest.startsWith(`${one}:`) || rest.startsWith(`${one}@`);
  if (name !== undefined) return deleted !== undefined || !isCalled(name);
  return deleted === undefined && [...names].some(isCalled);
}

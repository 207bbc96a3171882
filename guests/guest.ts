import { canonicalMac } from "../ipam/definition/mac.ts";
import { isNetworkName } from "../ipam/definition/plugin-config.ts";
import { formatAddress, parseAddress } from "../ipam/space/address.ts";
import { guestSpace, isSameSpace } from "./guest-space.ts";
import type { NotFound } from "./port-lookup.ts";
import type { PortMemory } from "./port-memory.ts";
import type { FailedPort, WantedPort } from "./ports/wire.ts";

/** An attachment whose port is wanted: by the daemon, or as a pod of OVN-Kubernetes has it. */
export interface Attachment extends WantedPort {
  /** Absent: the link is looked for in the guest's namespace. */
  readonly pod?: PodPort;
}

/** Port of a pod in Open vSwitch, as OVN-Kubernetes wrote it. */
export interface PodPort {
  readonly uid: string;
  /** On the node. */
  readonly link: string;
  /** UUID of its row, which is another one when the port was added anew. */
  readonly row: string;
}

/** An attachment whose port is wanted, validated for use in commands and in haproxy's map. */
export interface Guest {
  readonly wanted: Attachment;
  /** As in LISTENER_HEADERS. */
  readonly subject: string;
  /** The recorded address by which the metadata server knows it: of IPv4, if it has one. */
  readonly source: string;
  /** As requested; null: none was. Lower case with colons. */
  readonly mac: string | null;
}

/** No network has this name. */
const POD_KEY = "{pod} ";

/** Unlike every other attachment's on this node. Of a pod: another one when anything of its row has changed. */
export function guestKey(wanted: Attachment): string {
  const { network, containerId, interface: name, pod } = wanted;
  return pod === undefined ? `${network} ${containerId} ${name}` : POD_KEY + JSON.stringify(wanted);
}

/** What a key says of a pod's port, which is all; null: it is none of a pod. */
export function podOf(key: string): Required<Attachment> | null {
  return key.startsWith(POD_KEY) ? JSON.parse(key.slice(POD_KEY.length)) : null;
}

export function guestOf(wanted: Attachment): Guest | NotFound {
  const { network, containerId, interface: name, pod } = wanted;
  // The CNI rules. The names are used in headers.
  if (!isNetworkName(network))
    return never(`the name of network ${JSON.stringify(network)} may only have letters, digits, "_", "." and "-"`);
  if (!/^[\w.-]+$/.test(containerId)) return never(`its container ID ${JSON.stringify(containerId)} is none`);
  if (pod !== undefined && !/^[\w-]+$/.test(pod.uid)) return never(`its pod's UID ${pod.uid} is none`);
  try {
    const addresses = wanted.addresses.map(parseAddress);
    const source = addresses.find(({ family }) => family === 4) ?? addresses[0];
    if (source === undefined) return { kind: "pending", problem: "it has no recorded address" };
    return {
      wanted,
      subject: pod === undefined ? `container/${containerId}/${encodeURIComponent(name)}` : `pod/${pod.uid}`,
      source: formatAddress(source),
      mac: wanted.mac === null ? null : canonicalMac(wanted.mac),
    };
  } catch (error) {
    return never((error as Error).message);
  }
}

function sameWanted(one: Attachment, other: Attachment): boolean {
  return (
    guestKey(one) === guestKey(other) &&
    one.netns === other.netns &&
    one.mac === other.mac &&
    sameTexts(one.addresses, other.addresses)
  );
}

function sameTexts(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, at) => text === other[at]);
}

function never(problem: string): NotFound {
  return { kind: "final", problem };
}

/** The guests that are wanted: those that can be served, by key, and those that cannot, wherever they are. */
export class WantedGuests {
  #fit: ReadonlyMap<string, Guest> = new Map();
  #unfit: readonly FailedPort[] = [];

  get fit(): ReadonlyMap<string, Guest> {
    return this.#fit;
  }

  get unfit(): readonly FailedPort[] {
    return this.#unfit;
  }

  get count(): number {
    return this.#fit.size + this.#unfit.length;
  }

  /** Returns the keys of those that are wanted no longer, or otherwise than before. */
  take(wanted: { readonly ports: readonly Attachment[] }): readonly string[] {
    const before = this.#fit;
    const fit = new Map<string, Guest>();
    const unfit: FailedPort[] = [];
    for (const port of wanted.ports) {
      const { containerId, interface: name } = port;
      const key = guestKey(port);
      const known = before.get(key);
      const guest = known !== undefined && sameWanted(known.wanted, port) ? known : guestOf(port);
      if ("kind" in guest) unfit.push({ ...guest, containerId, interface: name });
      else fit.set(key, guest);
    }
    this.#fit = fit;
    this.#unfit = unfit;
    return [...before].filter(([key, guest]) => fit.get(key) !== guest).map(([key]) => key);
  }
}

export function hasMoved(memory: PortMemory, key: string, { wanted }: Guest): boolean {
  const space = (memory.get(key) ?? memory.demoted(key))?.space ?? null;
  return space !== null && !isSameSpace(space, guestSpace(wanted.netns));
}

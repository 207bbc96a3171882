import type { Attachment } from "../../allocations/records.ts";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import type { Versions } from "../long-poll.ts";
import type { WantedPort, WantedPorts } from "./wire.ts";

/** The port of one attachment, and when the attachment was made. */
export interface NumberedPort {
  /** The id of the attachment: a later one is larger. */
  readonly id: number;
  readonly port: WantedPort;
}

interface KnownPort extends NumberedPort {
  readonly text: string;
  /** Number of the first state that had it in this form. */
  readonly since: number;
}

interface Entry {
  readonly definition: NetworkDefinition | undefined;
  readonly ports: ReadonlyMap<string, KnownPort>;
}

/** Identifies the attachment of a port within its network. */
export function portKey(one: { readonly containerId: string; readonly interface: string }): string {
  return `${one.containerId}/${one.interface}`;
}

/** The wanted ports of all networks, renumbered at each change. */
export class WantedState {
  readonly #versions: Versions;
  readonly #entries = new Map<string, Entry>();
  #ovnNetworks: readonly string[] = [];
  #answer: WantedPorts | null = null;

  constructor(versions: Versions) {
    this.#versions = versions;
  }

  get networks(): readonly string[] {
    return [...this.#entries.keys()];
  }

  /** All ports in order of creation. */
  get ports(): WantedPorts {
    const version = this.#versions.present;
    if (this.#answer?.version === version) return this.#answer;
    const known = [...this.#entries.values()].flatMap(({ ports }) => [...ports.values()]);
    const ports = known.sort((a, b) => a.id - b.id).map(({ port }) => port);
    this.#answer = { version, ports, ovnNetworks: this.#ovnNetworks };
    return this.#answer;
  }

  definitionOf(network: string): NetworkDefinition | undefined {
    return this.#entries.get(network)?.definition;
  }

  /** Since which state a port is wanted in its present form; null: it is not wanted. */
  since(network: string, key: string): number | null {
    return this.#entries.get(network)?.ports.get(key)?.since ?? null;
  }

  /** Number of ports that are part of the state with that number in their present form. */
  countUpTo(number: number): number {
    let count = 0;
    for (const { ports } of this.#entries.values())
      for (const { since } of ports.values()) if (since <= number) count += 1;
    return count;
  }

  put(network: string, definition: NetworkDefinition | undefined, wanted: readonly NumberedPort[]): void {
    const before = this.#entries.get(network)?.ports;
    const texts = wanted.map((one) => ({
      ...one,
      key: portKey(one.port),
      text: `${one.id} ${JSON.stringify(one.port)}`,
    }));
    const isKnown = ({ key, text }: { key: string; text: string }) => before?.get(key)?.text === text;
    if (texts.length !== (before?.size ?? 0) || !texts.every(isKnown)) this.#versions.number += 1;
    const ports = new Map(
      texts.map(({ key, ...one }) => {
        const known = before?.get(key);
        return [key, known?.text === one.text ? known : { ...one, since: this.#versions.number }] as const;
      }),
    );
    this.#entries.set(network, { definition, ports });
  }

  putOvnNetworks(names: readonly string[]): void {
    if (JSON.stringify(names) === JSON.stringify(this.#ovnNetworks)) return;
    this.#ovnNetworks = names;
    this.#versions.number += 1;
  }
}

export function portOf(attachment: Attachment): NumberedPort {
  const { id, network, containerId, interface: name, netns, mac, ips } = attachment;
  const port = {
    network,
    containerId,
    interface: name,
    netns: netns.path,
    addresses: ips.map(({ address }) => withoutMask(address)),
    mac,
  };
  return { id, port };
}

/** Cut from the canonical text: this is done for every attachment of a network at each of its changes. */
function withoutMask(address: string): string {
  return address.slice(0, address.indexOf("/"));
}

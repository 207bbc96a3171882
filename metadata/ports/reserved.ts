import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import type { Log } from "../../platform/log.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import { RecentKeys } from "../../platform/warn-once.ts";
import type { PortStore } from "../../store/node-store.ts";

/** The address by which guests of earlier releases have their route; null: they have none. */
export function reservedAddress({ metadata }: Pick<NetworkDefinition, "metadata">): Address | null {
  return metadata?.reserved?.address.address ?? null;
}

/**
 * Whether the reserved addresses of networks are free. One may have been allocated before its network had metadata;
 * then no guest has its route by it, and the address must be answered for by its holder alone.
 */
export class ReservedAddresses {
  readonly #store: Pick<PortStore, "holderOf">;
  readonly #log: Log;
  /** By network and address. */
  readonly #held = new Map<string, boolean>();
  readonly #asking = new SingleFlight<void>();
  /** Networks whose holder is unknown, which was already logged. */
  readonly #untold = new RecentKeys();

  constructor(store: Pick<PortStore, "holderOf">, log: Log) {
    this.#store = store;
    this.#log = log;
  }

  /** Whether somebody holds it; undefined: not known. */
  isHeld(network: string, address: Address): boolean | undefined {
    return this.#held.get(keyOf(network, address));
  }

  /** Reads the holder now; `isHeld` has the result. Never rejects: on failure it stays as it was. */
  ask(network: string, address: Address): Promise<void> {
    return this.#asking.run(() => this.#ask(network, address), keyOf(network, address));
  }

  async #ask(network: string, address: Address): Promise<void> {
    try {
      const owner = await this.#store.holderOf(network, address);
      this.#held.set(keyOf(network, address), owner !== null);
      this.#untold.forget(network);
    } catch (error) {
      if (!this.#untold.addIfNew(network)) return;
      this.#log.warn(
        { network, address: formatAddress(address), err: error as Error },
        "whether the address that the network reserved for metadata is free is not known; asking again",
      );
    }
  }
}

function keyOf(network: string, address: Address): string {
  return `${network} ${formatAddress(address)}`;
}

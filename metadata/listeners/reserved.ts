import { describeOwner } from "../../ipam/owner.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import type { Log } from "../../platform/log.ts";
import { SingleFlight } from "../../platform/single-flight.ts";
import { RecentKeys } from "../../platform/warn-once.ts";
import type { ListenerStore } from "../../store/node-store.ts";

interface Known {
  readonly address: string;
  /** The holder, for messages; null: it is free. */
  readonly holder: string | null;
}

/**
 * Whether the reserved addresses of networks are free. One may have been allocated before its network had metadata;
 * beside its holder, a listener would be a second station with one address.
 */
export class ReservedAddresses {
  readonly #store: Pick<ListenerStore, "holderOf">;
  readonly #log: Log;
  readonly #known = new Map<string, Known>();
  readonly #asking = new SingleFlight<void>();
  /** Networks whose holder is unknown, which was already logged. */
  readonly #untold = new RecentKeys();

  constructor(store: Pick<ListenerStore, "holderOf">, log: Log) {
    this.#store = store;
    this.#log = log;
  }

  /** The holder: null: free, undefined: not known. */
  holder(network: string, address: Address): string | null | undefined {
    const known = this.#known.get(network);
    return known?.address === formatAddress(address) ? known.holder : undefined;
  }

  /** Reads the holder now; `holder` has the result. Never rejects: on failure it stays as it was. */
  ask(network: string, address: Address): Promise<void> {
    const text = formatAddress(address);
    return this.#asking.run(() => this.#ask(network, address, text), `${network} ${text}`);
  }

  async #ask(network: string, address: Address, text: string): Promise<void> {
    try {
      const owner = await this.#store.holderOf(network, address);
      const holder = owner === null ? null : describeOwner(owner);
      const before = this.holder(network, address);
      this.#known.set(network, { address: text, holder });
      this.#untold.forget(network);
      if (holder !== null && holder !== before) {
        this.#log.warn({ network, address: text, holder }, whyHeld(text, holder));
      }
    } catch (error) {
      if (!this.#untold.addIfNew(network)) return;
      this.#log.warn(
        { network, address: text, err: error as Error },
        "nobody can tell whether the reserved address of the network is free; asking again",
      );
    }
  }
}

export function whyHeld(address: string, holder: string): string {
  return `its reserved address ${address} is held by ${holder}; free it, or name another one in ipam.metadata.address`;
}

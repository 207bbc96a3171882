import { type Address, parseAddress } from "../space/address.ts";
import { parseInterfaceAddress } from "../space/cidr.ts";
import { readWith } from "./definition-keys.ts";

export interface RequestedAddress {
  readonly address: Address;
  /** null: requested without a mask, so the subnet's is used. */
  readonly prefixLength: number | null;
  /** The key that it came from, for messages. */
  readonly source: string;
}

/** `10.0.0.5` or `10.0.0.5/24`. Throws RefusalError CONFIG_INVALID that names `source`. */
export function parseRequestedAddress(text: unknown, source: string): RequestedAddress {
  return readWith(
    (address) =>
      address.includes("/")
        ? { ...parseInterfaceAddress(address), source }
        : { address: parseAddress(address), prefixLength: null, source },
    { key: source, value: text },
  );
}

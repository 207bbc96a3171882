import type { CniWireRequest } from "../cni-shim/wire.ts";
import { foldAsGo } from "../ipam/definition/go-json.ts";
import { PREVIOUS_RESULT_KEYS } from "../ipam/definition/read-keys.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { sameAddress } from "../ipam/space/address.ts";
import { parseInterfaceAddress } from "../ipam/space/cidr.ts";
import type { CniContext } from "./context.ts";
import { readDefinedConfig } from "./request.ts";

/** CHECK: journal, store and prevResult must agree. Throws RefusalError CHECK_FAILED with the difference. */
export async function cniCheck(context: CniContext, wire: CniWireRequest): Promise<void> {
  const { definition, conf } = readDefinedConfig(wire.config, "CHECK", "0.4.0");
  const fail = (problem: string): never => {
    const { containerId, ifname } = wire;
    throw new RefusalError(refuse("CHECK_FAILED", { containerId, interface: ifname, problem }));
  };
  const attachment = context.store.attachment(definition.name, wire.containerId, wire.ifname);
  if (!attachment) return fail(`nothing is attached to network ${definition.name}`);
  for (const { address } of attachment.ips) {
    const holder = await context.store.holderOf(definition.name, parseInterfaceAddress(address).address);
    if (holder === null || holder.uid !== attachment.owner.uid) {
      fail(`${address} is not allocated to it any more`);
    }
  }
  const previous = previousAddresses(foldAsGo(conf.prevResult, PREVIOUS_RESULT_KEYS));
  if (previous === null) return;
  const missing = attachment.ips.find(({ address }) => !previous.some((text) => isSame(text, address)));
  if (missing) fail(`${missing.address} is allocated, but prevResult has ${previous.join(", ") || "no address"}`);
}

/** Addresses in prevResult that may be ours; null when the runtime sent none. */
function previousAddresses(prevResult: unknown): string[] | null {
  if (typeof prevResult !== "object" || prevResult === null) return null;
  const { ips } = prevResult as { ips?: unknown };
  if (!Array.isArray(ips)) return [];
  return ips.map((ip) => String((ip as { address?: unknown } | null)?.address));
}

/** The same address in any notation. */
function isSame(text: string, address: string): boolean {
  try {
    const [a, b] = [parseInterfaceAddress(text), parseInterfaceAddress(address)];
    return sameAddress(a.address, b.address) && a.prefixLength === b.prefixLength;
  } catch {
    return false;
  }
}

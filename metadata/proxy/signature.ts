import type { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import { type Address, formatAddress } from "../../ipam/space/address.ts";

export interface SignedIdentity {
  readonly instanceId: string;
  readonly tenantId: string;
  /** Name of the network that the request came in on. */
  readonly network: string;
  /** The guest's address on it, as recorded: never what the guest calls itself. */
  readonly source: Address;
}

/** Lower-case hex, of the ID alone, as Nova and Neutron compute it (`metadata_proxy_shared_secret`). */
export function signInstanceId(secret: Buffer, instanceId: string): string {
  return createHmac("sha256", secret).update(instanceId, "utf8").digest("hex");
}

/**
 * The headers that tell a backend who asks; all others of the kind are taken from the client's request before
 * (`strippedHeaders`). Without secret the request goes unsigned; an empty one is a key like any other. The network's
 * name stands under the names of Neutron's headers, for backends of tenants. Throws TypeError for a value that no
 * header can carry: it should have been refused where it was read.
 */
export function identityHeaders(identity: SignedIdentity, secret: Buffer | null): Readonly<Record<string, string>> {
  const { instanceId, tenantId, network, source } = identity;
  const headers = {
    "X-Instance-ID": instanceId,
    ...(secret === null ? {} : { "X-Instance-ID-Signature": signInstanceId(secret, instanceId) }),
    "X-Tenant-ID": tenantId,
    "X-Forwarded-For": formatAddress(source),
    "X-Neutron-Network-ID": network,
    "X-OVN-Network-ID": network,
  };
  for (const [name, value] of Object.entries(headers)) {
    if (!isHeaderValue(value)) throw new TypeError(`${name} cannot carry ${JSON.stringify(value)}`);
  }
  return headers;
}

/** Whether every receiver reads the same text in a header: visible ASCII, and no comma, which joins values. */
function isHeaderValue(text: string): boolean {
  return /^[\x21-\x2b\x2d-\x7e]+$/.test(text);
}

/*
 * ipam/definition/: the configuration of a network, read into what it means
 *
 *   network-definition          what it means
 *   nad-config, plugin-config   a NetworkAttachmentDefinition's text, and one plugin's configuration
 *   own-keys, host-local-keys, subnet-ranges   ranges, by our keys and by host-local's
 *   metadata-key, routes-and-dns, bridge-gateway, requested-address   the other keys
 *   definition-keys             how any key is read and refused; definition-difference: two that do not agree
 *   host-local-lease            where host-local keeps what it gave; interface-name: what Linux takes as one
 */

import type { RangeSet } from "../space/range-set.ts";
import type { NetworkMetadata } from "./metadata-key.ts";
import type { Dns, Route } from "./routes-and-dns.ts";

/** What a network is: the meaning of one plugin configuration, whichever keys it was written with. */
export interface NetworkDefinition {
  readonly name: string;
  /** Each interface gets one address from each. Empty when the configuration gives no ranges at all. */
  readonly rangeSets: readonly RangeSet[];
  readonly routes: readonly Route[];
  readonly dns: Dns;
  /** Path of a resolver configuration to take the DNS from (host-local's key). */
  readonly resolvConf?: string;
  /** Folder in which host-local kept a folder for each network (its key); absent: where it does by itself. No part of the fingerprint. */
  readonly dataDir?: string;
  /** How long a released address rests before it is given again. */
  readonly cooldownSeconds: number;
  readonly allowPersistentIPs: boolean;
  /** Whether STATUS fails while a range set has no free address. */
  readonly statusWhenFull: "ok" | "fail";
  /** null: off. Its reserved address is already taken out of `rangeSets`. */
  readonly metadata: NetworkMetadata | null;
  /** Equal for two definitions exactly if they mean the same. */
  readonly fingerprint: string;
  /** What an operator may want to know about the configuration, though it is valid. */
  readonly notes: readonly string[];
}

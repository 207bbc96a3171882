/*
 * ipam/definition/: the configuration of a network, read into its meaning
 *
 *   network-definition          the result
 *   nad-config, plugin-config   a NetworkAttachmentDefinition's text, and one plugin's configuration
 *   own-keys, subnet-ranges     ranges by our keys (plugin-config has host-local's); special-networks: none of them
 *   metadata-key, routes-and-dns, reservations, bridge-gateway, requested-address   the other keys
 *   definition-keys             reading and refusing any key; definition-difference: comparing two definitions
 *   convert-config              other IPAM plugins' keys turned into ours
 *   host-local-lease            host-local's files; interface-name: names that Linux accepts
 */

import type { RangeSet } from "../space/range-set.ts";
import type { NetworkMetadata } from "./metadata-key.ts";
import type { Reservations } from "./reservations.ts";
import type { Dns, Route } from "./routes-and-dns.ts";

/** What a network is: the meaning of a plugin configuration, whichever keys it was written with. */
export interface NetworkDefinition {
  readonly name: string;
  /** Each interface gets one address of each. Empty when the configuration has no ranges at all. */
  readonly rangeSets: readonly RangeSet[];
  readonly routes: readonly Route[];
  readonly dns: Dns;
  /** Path of a resolver configuration to take the DNS from (host-local's key). */
  readonly resolvConf?: string;
  /** host-local's directory (its key), with one in it per network; absent: its default. Not part of the fingerprint. */
  readonly dataDir?: string;
  /** How long a released address cools down before it is allocated again. */
  readonly cooldownSeconds: number;
  /** How long the addresses of a claim that has ended stay reserved for a claim of its name; 0: not at all. */
  readonly retainSeconds: number;
  readonly allowPersistentIPs: boolean;
  /** Addresses of certain MACs; absent: none. The range sets do not give them without a request. */
  readonly reservations?: Reservations;
  /** Whether STATUS fails while a range set has no free address. */
  readonly statusWhenFull: "ok" | "fail";
  /** null: off. */
  readonly metadata: NetworkMetadata | null;
  /** The configuration has no key `metadata`, so that a node's default counts. Not part of the fingerprint. */
  readonly isMetadataUnset?: true;
  /** Equal for two definitions exactly if they mean the same. */
  readonly fingerprint: string;
  /** Remarks for operators about a configuration that is valid. */
  readonly notes: readonly string[];
}

import type { ClaimReason } from "./claim-conditions.ts";
import { shortened } from "./copied-text.ts";
import { type Address, formatAddress } from "./space/address.ts";

/**
 * Every refusal. `say` states the problem, `hint` what an operator can do next; both contain `{placeholders}`.
 * `cniCode` is the code of the CNI error object: 1 to 11, 50 and 51 as the CNI specification defines them; 120 and
 * above are ours, each with one meaning. `claimReason` is the reason of the IPAMClaim's `IPsAllocated` condition, where
 * a claim is concerned.
 */
export const REFUSALS = {
  VERSION_UNSUPPORTED: {
    cniCode: 1,
    say: "cniVersion {version} is not supported for {verb}",
    hint: "supported versions: {supported}",
  },
  VERSION_TOO_NARROW: {
    cniCode: 1,
    say: "a result of cniVersion {version} cannot carry {count} addresses of one family",
    hint: "set cniVersion 0.3.0 or later in the configuration of network {network}",
  },
  ENVIRONMENT_INVALID: {
    cniCode: 4,
    say: "{problem}",
    hint: "the container runtime sets these variables; check how it calls the plugin",
  },
  CONFIG_UNREADABLE: {
    cniCode: 6,
    say: "the network configuration cannot be read as JSON: {problem}",
    hint: "correct spec.config of the NetworkAttachmentDefinition, or the file in the CNI configuration directory",
  },
  CONFIG_INVALID: {
    cniCode: 7,
    say: "{key} is {value}: {remedy}",
    hint: "correct the network configuration; the next attempt reads it again, no restart is needed",
  },
  NETWORK_UNDEFINED: {
    cniCode: 7,
    say: "network {network} has no ranges",
    hint: "give subnets in the ipam block, or apply a definition (holdfast apply -f)",
    claimReason: "NetworkNotFound",
  },
  HOST_LOCAL_UNREADABLE: {
    cniCode: 7,
    say: "{path}, where host-local keeps addresses of network {network}, cannot be read: {problem}",
    hint: "{remedy}; no address is given there until then, because it might be in use",
  },
  DEFINITION_CONFLICT: {
    cniCode: 7,
    say: "{other} defines network {network} differently from {definition}, which counts",
    hint: "make the two equal, or {remedy}",
  },
  NETWORK_NOT_SHARED: {
    cniCode: 7,
    say: "{user} asks for network {network}, which belongs to {owner}",
    hint: 'its owner shares it: annotation ipam.holdfast.dev/shared-with: "{namespace}" on the NetworkAttachmentDefinition that defines it; or use another network name; an administrator moves it: holdfast networks own {network} {to}',
    claimReason: "NetworkNotFound",
  },
  DEFINITION_MISSING: {
    cniCode: 7,
    say: "network {network} belongs to {owner}, where no NetworkAttachmentDefinition defines it now",
    hint: "create the definition there again; an administrator gives the network to another namespace, or to the nodes' own configuration: holdfast networks own {network} --namespace NAMESPACE, or --administrators",
    claimReason: "NetworkNotFound",
  },
  CLAIM_OTHER_NAMESPACE: {
    cniCode: 7,
    say: "the pod in namespace {namespace} refers to IPAMClaim {claim} of another namespace",
    hint: "an IPAMClaim serves pods of its own namespace only; give its bare name",
  },
  IMPORT_UNREADABLE: {
    cniCode: 7,
    say: "what was in use on network {network} before cannot be read: {problem}",
    hint: "{remedy}; no address is given there until then, because it might be in use",
  },
  GC_LIST_MISSING: {
    cniCode: 7,
    say: "GC came without cni.dev/valid-attachments and cni.dev/attachments",
    hint: "an empty list would end every attachment of the network, so it must be given explicitly; check the runtime",
  },
  NOT_READY: {
    cniCode: 11,
    say: "holdfast is not ready: {reason}",
    hint: "try again when that is over (holdfast wait, or GET /readyz on the socket, says when the daemon is ready); a kubelet does so by itself",
  },
  DAEMON_ENDING: {
    cniCode: 11,
    say: "the holdfast daemon of this node is ending, and leaves this request to the next one",
    hint: "the plugin binary asks the next one; where none comes in time, the kubelet tries again: see that one starts (systemctl status holdfast, or the pod of the node)",
  },
  METADATA_OPEN: {
    cniCode: 11,
    say: "network {network} has metadata, and nothing keeps guests behind {device} from the node's own 169.254.169.254 yet: {problem}",
    hint: "start holdfast metadata-net on this node (systemctl start holdfast-metadata-net, or the DaemonSet holdfast-metadata), whose log says more; where no guest of the node is to have metadata, set metadata: off for its daemon; a kubelet tries again by itself",
  },
  NOT_IMPORTED: {
    cniCode: 11,
    say: "addresses of network {network} that were in use before may not be recorded yet: {reason}",
    hint: "the kubelet tries again; holdfast controller records them, usually within seconds: see that one runs, and its log (kubectl get ipnetworks shows IMPORTED)",
  },
  NETWORK_RECOVERING: {
    cniCode: 11,
    say: "no new address of network {network} is given now: {reason}",
    hint: "the kubelet tries again; the API server was away, or has an older state than before (a restored etcd); kubectl get ipnetworks and holdfast check tell more",
  },
  STORAGE_FAILED: {
    cniCode: 11,
    say: "the allocation could not be made durable: {problem}",
    hint: "check free space and health of the disk under the state directory; the kubelet tries again, with another runtime start the container again",
  },
  PERSISTENCE_NOT_ALLOWED: {
    cniCode: 7,
    say: "network {network} does not set allowPersistentIPs, so IPAMClaim {claim} is not honoured",
    hint: "set allowPersistentIPs in the network's definition, or remove the claim reference from the pod",
    claimReason: "PersistenceNotAllowed",
  },
  API_AWAY: {
    cniCode: 11,
    say: "the API server gave no answer: {problem}",
    hint: "what was begun is kept, and the kubelet tries again; check the API server and the way to it",
  },
  API_REFUSED: {
    cniCode: 11,
    say: "the API server refuses to {what}: {problem}",
    hint: "check that the custom resource definitions and the rights of deploy/ are installed as they are in this release",
  },
  POD_ABSENT: {
    cniCode: 11,
    say: "there is no pod {pod}",
    hint: "the pod was deleted while its sandbox was made; nothing is held for it",
  },
  WRONG_NODE: {
    cniCode: 11,
    say: "pod {pod} is on node {actual}, and this daemon serves node {node}",
    hint: "give the daemon the name of its Node object (--node, HOLDFAST_NODE); under any other name its containers look lost",
  },
  TOO_MANY_WAITING: {
    cniCode: 11,
    say: "{count} requests are waiting already",
    hint: "find what they wait for in the log; the kubelet tries again, with another runtime start the container again",
  },
  SUPERSEDED: {
    cniCode: 11,
    say: "this ADD for container {containerId}, interface {interface} was overtaken by {later}",
    hint: "nothing is held for it; the kubelet tries again if the container still lives",
  },
  POOL_FULL: {
    cniCode: 11,
    say: "no free address in {subnets} of network {network}",
    hint: "{counts}. holdfast show {network} lists the holders; add a subnet, delete claims of VMs that will not come back, or release leaks (holdfast check). What containers hold whose network namespaces are gone is given back witnessGraceSeconds later (300 unless set otherwise)",
    claimReason: "SubnetExhausted",
  },
  ADDRESS_COOLING: {
    cniCode: 11,
    say: "{address} of network {network} was released a short time ago and is still cooling down",
    hint: "its last holder may still run, or was of another namespace; cooldownSeconds of the network says for how long. The kubelet tries again, with another runtime start the container again; holdfast release ends the cool-down at once",
    claimReason: "IPAddressConflict",
  },
  CLAIM_ABSENT: {
    cniCode: 11,
    say: "IPAMClaim {claim} does not exist yet",
    hint: "what creates the claim may be late or not running; the kubelet tries again, with another runtime start the container again",
  },
  CLAIM_TERMINATING: {
    cniCode: 11,
    say: "IPAMClaim {claim} is being deleted",
    hint: "only pods older than its deletion may use it; the kubelet tries again until it is gone",
  },
  PREDECESSOR_HOLDS: {
    cniCode: 11,
    say: "{address} of network {network} is not released yet from the deleted IPAMClaim {claim}, the predecessor of this one",
    hint: "the controller releases it about a minute after the last container of the deleted VM has ended (holdfast who {address}); the kubelet tries again until then",
    claimReason: "IPAddressConflict",
  },
  CLAIM_OTHER_OWNER: {
    cniCode: 11,
    say: "IPAMClaim {claim} belongs to {owner}, not to the VM of pod {pod}",
    hint: "a claim left by a dead VM of the same name goes when it is collected; the kubelet tries again until then",
  },
  UNAVAILABLE: {
    cniCode: 50,
    say: "holdfast cannot serve ADD: {reason}",
    hint: "check that the daemon runs and is ready (GET /readyz on its socket)",
  },
  ADDRESS_TAKEN: {
    cniCode: 120,
    say: "{address} is held by {holder} on network {network}",
    hint: "holdfast who {address} shows who uses it; ask for another address, or release that one first",
    claimReason: "IPAddressConflict",
  },
  ADDRESS_OUTSIDE: {
    cniCode: 121,
    say: "{address} is not in {subnets} of network {network}",
    hint: "ask for an address of these subnets, or add a subnet that holds it",
    claimReason: "RequestedIPOutsideSubnet",
  },
  ADDRESS_EXCLUDED: {
    cniCode: 122,
    say: "{address} is excluded in network {network}",
    hint: "network, broadcast and gateway addresses and excludeSubnets are never given; ask for another address",
    claimReason: "RequestedIPOutsideSubnet",
  },
  ADDRESS_RESERVED: {
    cniCode: 132,
    say: "{address} of network {network} is reserved for {mac}",
    hint: "ask for another address, or give the interface that MAC address",
    claimReason: "IPAddressConflict",
  },
  REQUEST_MISMATCH: {
    cniCode: 123,
    say: "{source} asks for {requested}, but {held} is held already on network {network}",
    hint: "addresses once held are kept; drop the request, or release the old ones first",
    claimReason: "IPAddressConflict",
  },
  CLAIM_IN_USE: {
    cniCode: 124,
    say: "IPAMClaim {claim} is used by {holder}",
    hint: "two pods share a claim only while one VM migrates; the older pod must be gone first",
    claimReason: "ClaimInUse",
  },
  CLAIM_OTHER_NETWORK: {
    cniCode: 125,
    say: "IPAMClaim {claim} is for network {claimNetwork}, this interface is on network {network}",
    hint: "name the claim of this network in the pod's network selection element",
    claimReason: "NetworkNotFound",
  },
  CHECK_FAILED: {
    cniCode: 126,
    say: "CHECK of container {containerId}, interface {interface}: {problem}",
    hint: "holdfast check compares journal, store and pods; the sandbox may have to be recreated",
  },
  IN_USE: {
    cniCode: 127,
    say: "{addresses} is in use by {holder}",
    hint: "stop what uses it first; its DEL gives the address back",
  },
  GATEWAY_HELD: {
    cniCode: 128,
    say: "{address}, the gateway's address of network {network}, is held by {holder}, and the node would take it for itself (isGateway, or ptp)",
    hint: "stop what holds it (holdfast who {address}; of a claim: delete the claim), or give the network another gateway; then try again",
    claimReason: "IPAddressConflict",
  },
  NOT_FOUND: {
    cniCode: 129,
    say: "there is no {what}",
    hint: "holdfast networks and holdfast list show what there is",
  },
  REQUEST_INVALID: {
    cniCode: 130,
    say: "{key} is {value}: {remedy}",
    hint: "correct the request; it changed nothing",
  },
  READ_ONLY: {
    cniCode: 133,
    say: "{request} is not served on the read-only socket",
    hint: "run the command as root (sudo), who may use the daemon's main socket",
  },
  ADDRESS_AMBIGUOUS: {
    cniCode: 131,
    say: "{address} is an address of several networks: {networks}",
    hint: "name the one that is meant: network=NAME, or holdfast who {address} --network NAME",
  },
  INTERNAL_ERROR: {
    cniCode: 999,
    say: "a fault in holdfast: {problem}",
    hint: "nothing was given; keep the log and report it",
    claimReason: "InternalError",
  },
} as const satisfies Record<string, RefusalRow>;

interface RefusalRow {
  readonly cniCode: number;
  readonly say: string;
  readonly hint: string;
  readonly claimReason?: ClaimReason;
}

/** Name of one entry of the table: metric label, anchor in the documentation, `code` of API errors. */
export type RefusalCode = keyof typeof REFUSALS;

/** Placeholders that are more than text, because the caller may act on them. */
interface ValueTypes {
  readonly address: Address;
  readonly requested: Address;
  readonly count: number;
}

export type RefusalValues<Code extends RefusalCode> = {
  readonly [Name in Placeholder<
    (typeof REFUSALS)[Code]["say"] | (typeof REFUSALS)[Code]["hint"]
  >]: Name extends keyof ValueTypes ? ValueTypes[Name] : string;
};

interface RefusalOf<Code extends RefusalCode> {
  readonly code: Code;
  readonly cniCode: number;
  readonly message: string;
  readonly hint: string;
  readonly claimReason?: ClaimReason;
  /** The subject of the refusal, for callers that decide by it. The text is never parsed. */
  readonly about: RefusalValues<Code>;
}

export type Refusal = { readonly [Code in RefusalCode]: RefusalOf<Code> }[RefusalCode];

/** Longest value put into a message, characters: an operator recognises a value by its beginning. */
const VALUE_CHARS_MAX = 2_000;

export function refuse<Code extends RefusalCode>(code: Code, values: RefusalValues<Code>): RefusalOf<Code> {
  // Refusals are remembered, such as that of a network whose configuration is unreadable: long values are not.
  const about = shortened(values, VALUE_CHARS_MAX);
  const { cniCode, say, hint, claimReason }: RefusalRow = REFUSALS[code];
  const refusal = { code, cniCode, message: fill(say, about), hint: fill(hint, about), about };
  return claimReason === undefined ? refusal : { ...refusal, claimReason };
}

/** Carries a refusal out of a parser. Everywhere else refusals are returned. */
export class RefusalError extends Error {
  override readonly name = "RefusalError";
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

type Placeholder<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Placeholder<Rest>
  : never;

/** Puts values in place of names in braces; in one pass, so that a value that itself contains `{…}` stays as it is. */
function fill(template: string, values: Readonly<Record<string, string | number | Address>>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`refusal text "${template}" needs a value for ${name}`);
    return typeof value === "object" ? formatAddress(value) : String(value);
  });
}

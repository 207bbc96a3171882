import type { AttachView, ClaimUser, KnownAttachment, KnownClaim } from "../../ipam/attach-view.ts";
import type { HeldAddress } from "../../ipam/decide-addresses.ts";
import { decideAttach } from "../../ipam/decide-attach.ts";
import { parseRequestedAddress } from "../../ipam/definition/requested-address.ts";
import { describeOwner } from "../../ipam/owner.ts";
import { refuse } from "../../ipam/refusals.ts";
import { formatAddress, parseAddress } from "../../ipam/space/address.ts";
import { formatInterfaceAddress, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { Pool } from "../../ipam/space/pool.ts";
import { define } from "./definitions.ts";

/** What one case says besides "container new, eth0, of no pod, asks for an address of 10.0.0.0/29 at 100". */
export interface Given {
  readonly subnets?: string;
  readonly gateway?: string;
  /** allowPersistentIPs; true unless said otherwise. */
  readonly persistent?: boolean;
  /** The pod that asks: its name, whose UID is `NAME-uid`; a trailing "?" leaves the UID out. */
  readonly pod?: string;
  readonly claim?: Partial<KnownClaim> | "absent" | "unread";
  readonly requested?: readonly string[];
  readonly mac?: string;
  /** The network's, `MAC address`. */
  readonly reserved?: readonly string[];
  readonly onePerFamily?: boolean;
  readonly bridgeIsGateway?: boolean;
  readonly laterDel?: boolean;
  /** The attachment of the same container and interface. */
  readonly former?: Known;
  /** Attachments of the owner on this node. */
  readonly attached?: readonly Known[];
  readonly whyNot?: "CLAIM_OTHER_OWNER" | "unread";
  /** The claim is of the pod's VM; false unless said otherwise. */
  readonly mayFollow?: boolean | "unread";
  /** The claim is of a VM, which may get what it asks for; false unless said otherwise. */
  readonly mayMove?: boolean;
  /** Another container of its VM runs with an address that is not asked for; false unless said otherwise. */
  readonly runs?: boolean;
  readonly gatewayHolder?: string | "unread";
  readonly bound?: readonly string[];
  readonly adopted?: readonly string[];
  readonly ownCooling?: readonly string[];
  /** What the claim lists and has not. */
  readonly wishes?: readonly string[];
  /** The claim, on a network that does not allow it, has something there. */
  readonly has?: boolean | "unread";
  /** An entry of its list, of which it has none. */
  readonly unreadable?: string;
  /** What a deleted claim of the claim's name still has. */
  readonly unreleased?: string;
  readonly holdings?: "unread";
  readonly users?: readonly Known[] | "unread";
  readonly usersGone?: boolean;
  readonly mayShare?: boolean | "unread";
  /** true unless said otherwise. */
  readonly mayRenew?: boolean;
  /** Addresses that others have. */
  readonly allocated?: readonly string[];
  /** Addresses that others gave back. */
  readonly cooling?: readonly string[];
  /** The last holder of what cools has certainly ended. */
  readonly mayReturn?: boolean;
}

/** One attachment, in short. */
interface Known {
  readonly id?: string;
  readonly pod?: string;
  readonly interface?: string;
  readonly claim?: string;
  readonly us?: number;
  readonly bootId?: string;
  readonly ips?: readonly string[];
  readonly gone?: boolean;
  readonly lost?: boolean;
  readonly node?: string;
}

type Attachment = KnownAttachment & { readonly gone: boolean };

const BOOT = "now";

/** What comes of it, in one line. */
export function decided(given: Given): string {
  const unread: string[] = [];
  const decision = decideAttach(viewOf(given, unread));
  if (decision === undefined) return `read ${unread.join(", ")}`;
  if (decision.kind === "repeat") return `repeat ${decision.attachment.containerId}`;
  const told = decision.ignored === null ? "" : `; ignores ${decision.ignored.refusal.code}`;
  if (decision.kind === "refuse") {
    const { refusal, claim, isByFreeSpace } = decision;
    const about = `${claim === null ? "" : ` of ${claim.name}`}${isByFreeSpace ? " by free space" : ""}`;
    return `${refusal.code}${about}: ${refusal.message}${told}`;
  }
  const { owner, superseded, warnings } = decision.attacher;
  const what =
    decision.kind === "reuse"
      ? [...decision.addresses.map(formatInterfaceAddress), ...decision.slots.map(() => "and one more")]
      : decision.slots.map(({ candidates, rangeSetIndex }) => {
          const family = definitionOf(given).rangeSets[rangeSetIndex]?.family ?? 4;
          const [value] = candidates;
          return value === undefined ? "none" : formatAddress({ family, value });
        });
  const replaced = superseded.map(({ attachment, reason }) => `; ${attachment.containerId} ${reason}`);
  const warned = warnings.map(({ reason }) => `; warns ${reason}`).join("");
  const instead = decision.kind === "reuse" ? [] : decision.instead.map(formatInterfaceAddress);
  const moved = instead.length === 0 ? "" : ` in place of ${instead.join(" ")}`;
  return `${decision.kind} ${what.join(" ")} for ${describeOwner(owner)}${moved}${replaced.join("")}${told}${warned}`;
}

export function viewOf(given: Given, unread: string[] = []): AttachView<Attachment, KnownClaim> {
  const definition = definitionOf(given);
  const pools = definition.rangeSets.map((set) => new Pool(set));
  for (const pool of pools) {
    for (const text of [...(given.allocated ?? []), ...(given.cooling ?? [])]) {
      const { family, value } = parseAddress(text);
      if (pool.rangeSet.family === family) pool.allocate(value, { moveCursor: false });
    }
    for (const text of given.cooling ?? []) {
      const { family, value } = parseAddress(text);
      if (pool.rangeSet.family === family) pool.release(value, 1_000, 0);
    }
  }
  const fact = <T>(name: string, value: T | "unread"): T | undefined => {
    if (value !== "unread") return value;
    unread.push(name);
    return undefined;
  };
  const held = (texts: readonly string[] = [], state: "bound" | "cooling", adopted = false): HeldAddress[] =>
    texts.map((text) => ({ ...parseInterfaceAddress(text), state, adopted }));
  const { claim } = given;
  return {
    ask: {
      network: "blue",
      containerId: "new",
      interface: "eth0",
      stamp: { bootId: BOOT, us: 100 },
      pod: given.pod === undefined ? null : podOf(given.pod),
      claim: claim === undefined ? null : { namespace: "shop", name: "vm" },
      requested: (given.requested ?? []).map((text) => parseRequestedAddress(text, "runtimeConfig.ips")),
      ...(given.mac === undefined ? {} : { mac: given.mac }),
      onePerFamily: given.onePerFamily ?? false,
      bridgeIsGateway: given.bridgeIsGateway ?? false,
    },
    definition,
    bootId: BOOT,
    nowMs: 0,
    mayRenew: given.mayRenew ?? true,
    hasLaterDel: given.laterDel ?? false,
    former: given.former === undefined ? null : attachmentOf({ id: "new", ...given.former }, 1),
    pools,
    claim: () => (typeof claim === "object" ? claimOf(claim) : fact("claim", claim === "unread" ? "unread" : null)),
    whyNot: () =>
      fact(
        "permission",
        given.whyNot === "CLAIM_OTHER_OWNER"
          ? refuse("CLAIM_OTHER_OWNER", { claim: "shop/vm", owner: "VM old", pod: "shop/p" })
          : (given.whyNot ?? null),
      ),
    mayFollow: () => fact("VM", given.mayFollow ?? false),
    mayMove: () => given.mayMove ?? false,
    has: () => fact("what it has", given.has ?? false),
    attachmentsOf: () => (given.attached ?? []).map((one, index) => attachmentOf(one, index + 2)),
    isGone: ({ gone }) => gone,
    gatewayHolder: () => fact("gateway", given.gatewayHolder ?? null),
    holdings: () =>
      fact(
        "holdings",
        given.holdings ?? {
          held: [
            ...held(given.bound, "bound"),
            ...held(given.adopted, "bound", true),
            ...held(given.ownCooling, "cooling"),
          ],
          ...(given.unreleased === undefined ? {} : { unreleased: parseAddress(given.unreleased) }),
          ...(given.unreadable === undefined ? {} : { unreadable: unreadable(given.unreadable) }),
          wishes: (given.wishes ?? []).map(parseInterfaceAddress),
          runs: given.runs ?? false,
        },
      ),
    usersOf: (others) =>
      fact("users", given.users === "unread" ? "unread" : (given.users?.map(userOf) ?? others.map(asUser))),
    isUserGone: () => given.usersGone ?? false,
    mayShare: () => fact("other user", given.mayShare ?? false),
    mayReturn: () => given.mayReturn ?? false,
    goneUsersOf: () => [],
    holderOf: () => "pod shop/b (eth0)",
  };
}

function unreadable(value: string) {
  return refuse("REQUEST_INVALID", { key: "status.ips of claim shop/vm", value, remedy: "correct the claim's status" });
}

function definitionOf({ subnets = "10.0.0.0/29", gateway, persistent = true, reserved = [] }: Given) {
  const ipam = subnets === "" ? {} : { subnets, ...(gateway === undefined ? {} : { gateway }) };
  const reservations = reserved.map((one) => {
    const [mac, ...ips] = one.split(" ");
    return { mac, ips };
  });
  return define({ ...ipam, ...(reserved.length === 0 ? {} : { reservations }) }, { allowPersistentIPs: persistent });
}

function claimOf(claim: Partial<KnownClaim>): KnownClaim {
  return {
    namespace: "shop",
    name: "vm",
    uid: "vm-claim-uid",
    network: "blue",
    ips: [],
    ipRequests: [],
    ...claim,
  };
}

function podOf(name: string) {
  return name.endsWith("?")
    ? { namespace: "shop", name: name.slice(0, -1), uid: "" }
    : { namespace: "shop", name, uid: `${name}-uid` };
}

function attachmentOf(known: Known, id: number): Attachment {
  return {
    id,
    containerId: known.id ?? "old",
    interface: known.interface ?? "eth0",
    pod: known.pod === undefined ? null : podOf(known.pod),
    claimRef: known.claim ?? "",
    ips: (known.ips ?? ["10.0.0.5/29"]).map((address) => ({ address })),
    stamp: { bootId: known.bootId ?? BOOT, us: known.us ?? 50 },
    isLost: known.lost ?? false,
    gone: known.gone ?? false,
  };
}

function userOf(known: Known): ClaimUser {
  return { ...asUser(attachmentOf(known, 0)), node: known.node ?? null };
}

function asUser({ containerId, interface: interfaceName, pod }: Attachment): ClaimUser {
  return { containerId, interface: interfaceName, pod, node: null };
}

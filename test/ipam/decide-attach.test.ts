import { describe, expect, test } from "vitest";
import { decideAttach } from "../../ipam/decide-attach.ts";
import { decideRepeat } from "../../ipam/decide-repeat.ts";
import { decided, type Given, viewOf } from "./attach-given.ts";

/** Given, what comes of it (the beginning is enough), and why. */
type Case = readonly [Given, string, string];

function table(name: string, cases: readonly Case[]): void {
  describe(name, () => {
    test.each(cases)("%o → %s: %s", (given, wanted) => {
      expect(decided(given).slice(0, wanted.length)).toBe(wanted);
    });
  });
}

const mine = { ips: ["10.0.0.5/29"] };
const bound = ["10.0.0.5/29"];
const FULL = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"];

table("an exact repeat", [
  [{ former: {} }, "repeat new", "the same container asks the same again"],
  [{ former: { us: 500 } }, "repeat new", "also when the repeat began before the answer that it repeats"],
  [{ former: { pod: "p" }, pod: "p" }, "repeat new", "of the same pod"],
  [{ former: { pod: "p" }, pod: "p?" }, "repeat new", "a runtime that tells no UID is believed the name"],
  [{ former: { pod: "q" }, pod: "p?" }, "allocate", "but not another name"],
  [{ former: { claim: "shop/vm" }, claim: mine }, "repeat new", "of the same claim"],
  [{ former: { claim: "shop/vm" }, claim: "unread" }, "repeat new", "before anything is read of the claim"],
  [{ former: {}, subnets: "" }, "repeat new", "whatever becomes of the network's ranges"],
  [{ former: {}, allocated: FULL }, "repeat new", "and of its free space"],
  [
    { former: {}, laterDel: true },
    "SUPERSEDED: this ADD for container new, interface eth0 was overtaken by a later DEL",
    "a DEL that began later comes first",
  ],
  [{ former: {}, requested: ["10.0.0.5"] }, "repeat new", "asks for what it has"],
  [
    { former: {}, requested: ["10.0.0.6"] },
    "REQUEST_MISMATCH: runtimeConfig.ips asks for 10.0.0.6, but 10.0.0.5 is held",
    "asks for something else now",
  ],
  [
    { former: { ips: ["10.0.0.5/29", "10.1.0.5/29"] }, onePerFamily: true },
    "VERSION_TOO_NARROW",
    "asks in a version that cannot carry the answer",
  ],
  [
    { former: { ips: ["10.0.0.5/29", "10.1.0.5/29"] }, onePerFamily: true, requested: ["10.0.0.6"] },
    "VERSION_TOO_NARROW",
    "the version comes before what is asked for",
  ],
  [
    { former: { ips: ["10.0.0.5/29", "fd00::5/64"] }, onePerFamily: true },
    "repeat new",
    "one address of each family it can carry",
  ],
]);

table("a container ID that is used again", [
  [
    { former: { claim: "shop/vm" } },
    "allocate 10.0.0.1 for container new (eth0); new used again",
    "the claim is not named any more",
  ],
  [{ former: { pod: "q" }, pod: "p" }, "allocate 10.0.0.1 for pod shop/p (eth0); new used again", "by another pod"],
  [
    { former: { lost: true } },
    "allocate 10.0.0.1 for container new (eth0); new used again",
    "what it was answered is somebody else's by now",
  ],
]);

table("an ADD that something younger has overtaken", [
  [{ laterDel: true }, "SUPERSEDED", "its own DEL was seen"],
  [{ laterDel: true, claim: "unread" }, "SUPERSEDED", "nothing is read for it"],
  [{ laterDel: true, subnets: "" }, "SUPERSEDED", "comes before a network without ranges"],
  [
    { pod: "p", attached: [{ pod: "p", us: 200 }] },
    "SUPERSEDED: this ADD for container new, interface eth0 was overtaken by newer sandbox old of the same pod",
    "the pod has a newer sandbox",
  ],
  [{ pod: "p", attached: [{ pod: "p", us: 100 }] }, "SUPERSEDED", "or one that began at the same instant"],
  [{ pod: "p", claim: mine, attached: [{ pod: "p", us: 200 }] }, "SUPERSEDED of vm", "also with a claim"],
  [
    {
      pod: "p",
      claim: mine,
      attached: [
        { id: "a", pod: "q" },
        { pod: "p", us: 200 },
      ],
    },
    "SUPERSEDED of vm",
    "comes before another pod that uses the claim",
  ],
]);

table("what the new attachment takes the place of", [
  [
    { pod: "p", attached: [{ pod: "p" }], bound },
    "reuse 10.0.0.5/29 for pod shop/p (eth0); old newer sandbox",
    "a new sandbox of the pod keeps its addresses",
  ],
  [
    { pod: "p", attached: [{ pod: "p", bootId: "before", us: 900 }], bound },
    "reuse 10.0.0.5/29 for pod shop/p (eth0); old newer sandbox",
    "a former boot is older, whatever its clock says",
  ],
  [
    {
      pod: "p",
      attached: [
        { id: "a", pod: "p" },
        { id: "b", pod: "p" },
      ],
      bound,
    },
    "reuse 10.0.0.5/29 for pod shop/p (eth0); a newer sandbox; b newer sandbox",
    "all of them",
  ],
  [
    { claim: mine, bound, attached: [{ gone: true }] },
    "reuse 10.0.0.5/29 for claim shop/vm; old namespace gone",
    "a container whose namespace is gone keeps nobody from the claim",
  ],
  [
    { pod: "p", claim: mine, bound, attached: [{ pod: "p" }] },
    "reuse 10.0.0.5/29 for claim shop/vm; old newer sandbox",
    "the claim's own pod, restarted",
  ],
  [
    { claim: mine, bound, former: { claim: "shop/other" } },
    "reuse 10.0.0.5/29 for claim shop/vm; new used again",
    "the container's former claim",
  ],
]);

table("the network", [
  [{ subnets: "" }, "NETWORK_UNDEFINED: network blue has no ranges", "nobody has given it ranges"],
  [{ subnets: "", claim: "unread" }, "NETWORK_UNDEFINED", "known before the claim is read"],
]);

table("whether the claim may be used", [
  [{ claim: "unread" }, "read claim", "it is read once the journal has no answer"],
  [{ claim: "absent" }, "CLAIM_ABSENT: IPAMClaim shop/vm does not exist yet", "never an anonymous address instead"],
  [
    { claim: { network: "red" } },
    "CLAIM_OTHER_NETWORK of vm: IPAMClaim shop/vm is for network red",
    "it is for another network",
  ],
  [{ claim: { network: "red" }, persistent: false }, "CLAIM_OTHER_NETWORK", "which comes before the network's flag"],
  [{ claim: { network: "red" }, mayFollow: "unread" }, "read VM", "whose VM it is, is read then"],
  [
    { claim: { network: "red" }, persistent: false, mayFollow: true },
    "CLAIM_OTHER_NETWORK",
    "its VM goes to a network that keeps no addresses",
  ],
  [
    { claim: { network: "red", ips: ["10.0.0.5/29"], ipRequests: ["10.0.0.5"] }, mayFollow: true },
    "allocate 10.0.0.4 for claim shop/vm",
    "its VM goes to this network: what it has and asked for is of the other one",
  ],
  [
    { claim: { network: "red", ips: ["10.0.0.5/29"] }, mayFollow: true, ownCooling: ["10.0.0.3/29"] },
    "allocate 10.0.0.3 for claim shop/vm",
    "it comes back after its release: what it had here",
  ],
  [
    { claim: { network: "red", ips: ["10.9.0.5/29", "10.0.0.3/29"] }, mayFollow: true, bound: ["10.0.0.3/29"] },
    "reuse 10.0.0.3/29 for claim shop/vm",
    "it comes back: what it still has here, wherever spec.network points",
  ],
  [
    { claim: { network: "red", ipRequests: ["10.0.0.5"] }, mayFollow: true, requested: ["10.0.0.6"] },
    "allocate 10.0.0.6 for claim shop/vm",
    "what the VM asks for here, and not what the claim was made with",
  ],
  [
    { claim: { network: "", ipRequests: ["10.0.0.5"] }, mayFollow: true },
    "allocate 10.0.0.5 for claim shop/vm",
    "its definition has no name: what it asks for is of this network",
  ],
  [{ claim: { network: "" }, mayFollow: false }, "CLAIM_OTHER_NETWORK", "nor is it of this pod's VM"],
  [
    { claim: { network: "", ips: ["10.0.0.5/29"] }, mayFollow: true, wishes: ["10.0.0.5/29"] },
    "allocate 10.0.0.5 for claim shop/vm",
    "and so is what it lists",
  ],
  [
    { claim: { network: "red" }, mayFollow: true, requested: ["10.0.0.4"] },
    "allocate 10.0.0.4 for claim shop/vm",
    "what is asked for here counts",
  ],
  [
    { claim: {}, persistent: false },
    "allocate 10.0.0.1 for container new (eth0); ignores PERSISTENCE_NOT_ALLOWED; warns ClaimIgnored",
    "the network does not allow it: an address for the container, and a warning",
  ],
  [{ claim: {}, persistent: false, pod: "p" }, "allocate 10.0.0.1 for pod shop/p (eth0); ignores", "or for the pod"],
  [{ claim: {}, persistent: false, whyNot: "unread" }, "allocate", "nobody asks whether the pod might use it"],
  [
    { claim: {}, persistent: false, allocated: FULL },
    "POOL_FULL by free space: no free address in 10.0.0.0/29 of network blue; ignores",
    "the claim hears that it is ignored also when nothing is given",
  ],
  [
    { claim: { ipRequests: ["10.0.0.6"] }, persistent: false },
    "allocate 10.0.0.1",
    "what an ignored claim asks for is ignored too",
  ],
  [
    { claim: mine, persistent: false, wishes: bound },
    "allocate 10.0.0.1 for container new (eth0); ignores PERSISTENCE_NOT_ALLOWED",
    "so is its list: what is listed is not had",
  ],
  [{ claim: mine, persistent: false, has: "unread" }, "read what it has", "which only its allocations tell"],
  [
    { claim: mine, persistent: false, has: true, bound, whyNot: "CLAIM_OTHER_OWNER" },
    "CLAIM_OTHER_OWNER of vm",
    "of what it has only its VM makes use",
  ],
  [
    { claim: mine, persistent: false, has: true, bound },
    "reuse 10.0.0.5/29 for claim shop/vm",
    "addresses it has are its own whatever becomes of the flag",
  ],
  [{ claim: {}, whyNot: "unread" }, "read permission", "asked once the claim is known to be of this network"],
  [{ claim: {}, whyNot: "CLAIM_OTHER_OWNER" }, "CLAIM_OTHER_OWNER of vm", "the pod may not use it"],
  [{ claim: mine, whyNot: "CLAIM_OTHER_OWNER", attached: [{}] }, "CLAIM_OTHER_OWNER", "which comes before who uses it"],
  [
    { claim: { isClosed: true } },
    "CLAIM_TERMINATING of vm: IPAMClaim shop/vm is being deleted",
    "it is being deleted, and nobody new may use it",
  ],
  [
    { pod: "p", claim: { ...mine, isClosed: true }, bound, attached: [{ pod: "p" }] },
    "reuse 10.0.0.5/29 for claim shop/vm; old newer sandbox",
    "a pod that uses it may go on with a new sandbox",
  ],
  [
    { claim: { ...mine, isClosed: true }, bound, attached: [{ gone: true }] },
    "CLAIM_TERMINATING",
    "a container that is gone continues nothing",
  ],
  [
    { claim: { ...mine, isClosed: true }, bound, attached: [{}] },
    "CLAIM_TERMINATING",
    "which comes before who uses it",
  ],
]);

const moving = { claim: mine, bound, mayMove: true, requested: ["10.0.0.6"] } as const;
const migrating = { users: [{ pod: "q" }], mayShare: true, runs: true } as const;
table("a claim whose VM asks for others", [
  [
    { claim: { ipRequests: ["10.0.0.5"] }, requested: ["10.0.0.6"] },
    "CONFIG_INVALID of vm by free space: claim shop/vm spec.ipRequests is 10.0.0.5: runtimeConfig.ips asks for 10.0.0.6",
    "it asks for another one itself, before it has any",
  ],
  [moving, "allocate 10.0.0.6 for claim shop/vm in place of 10.0.0.5/29", "nobody uses it: what it asks for"],
  [{ ...moving, requested: ["10.0.0.5"] }, "reuse 10.0.0.5/29 for claim shop/vm", "it has them already"],
  [{ ...moving, mayMove: false }, "REQUEST_MISMATCH of vm", "a claim of no VM keeps what it has"],
  [
    { ...moving, ...migrating },
    "reuse 10.0.0.5/29 for claim shop/vm; warns AddressKept",
    "its VM migrates, and goes on with what it has",
  ],
  [
    { ...moving, ...migrating, requested: ["10.9.0.6"] },
    "reuse 10.0.0.5/29 for claim shop/vm; warns AddressKept",
    "also where it asks for what nobody could give",
  ],
  [
    { ...moving, ...migrating, runs: false, bound: ["10.0.0.6/29"] },
    "reuse 10.0.0.6/29 for claim shop/vm",
    "its VM runs with what it asks for",
  ],
  [
    { ...moving, runs: false, users: [{ pod: "q" }], mayShare: true },
    "allocate 10.0.0.6 for claim shop/vm in place of 10.0.0.5/29",
    "the pod that had it has ended",
  ],
  [{ ...moving, users: [{ pod: "q" }] }, "CLAIM_IN_USE of vm", "another VM uses it"],
  [
    { ...moving, pod: "p", attached: [{ pod: "p", ips: ["10.0.0.5"] }] },
    "allocate 10.0.0.6 for claim shop/vm in place of 10.0.0.5/29; old newer sandbox",
    "a newer sandbox of the pod that had it",
  ],
  [
    { ...moving, ownCooling: ["10.0.0.6/29"], allocated: ["10.0.0.6"] },
    "allocate 10.0.0.6 for claim shop/vm in place of 10.0.0.5/29",
    "it has it already, and another counts",
  ],
  [
    { ...moving, claim: { ipRequests: ["10.0.0.4"] } },
    "allocate 10.0.0.6 for claim shop/vm in place of 10.0.0.5/29",
    "what the claim itself asks for is about its first use",
  ],
  [
    { ...moving, requested: ["10.0.0.6", "10.0.0.4"] },
    "CONFIG_INVALID of vm by free space: runtimeConfig.ips is 10.0.0.4: runtimeConfig.ips asks for 10.0.0.6 already",
    "two of one subnet",
  ],
  [{ ...moving, allocated: ["10.0.0.6"] }, "ADDRESS_TAKEN of vm by free space", "somebody has it"],
  [{ ...moving, cooling: ["10.0.0.6"] }, "ADDRESS_COOLING of vm by free space", "somebody had it a moment ago"],
  [{ ...moving, requested: ["10.9.0.6"] }, "ADDRESS_OUTSIDE of vm by free space", "of no subnet"],
  [
    { ...moving, subnets: "10.0.0.0/29,fd00::/64", bound: ["10.0.0.5/29", "fd00::5/64"] },
    "allocate 10.0.0.6 fd00::5 for claim shop/vm in place of 10.0.0.5/29 fd00::5/64",
    "a family that it does not name stays as it is",
  ],
]);

const wishing = { claim: { ips: ["10.0.0.5/29"] }, wishes: ["10.0.0.5/29"] } as const;
const TWO = { subnets: "10.0.0.0/29,10.1.0.0/29" } as const;
table("a claim that lists what it has not", [
  [wishing, "allocate 10.0.0.5 for claim shop/vm", "what it wishes, where it is free"],
  [
    { ...wishing, wishes: ["10.0.0.5/24"] },
    "allocate 10.0.0.5 for claim shop/vm",
    "an address: its prefix length is the subnet's",
  ],
  [
    { ...wishing, wishes: ["10.0.0.5/29", "10.0.0.3/29"] },
    "allocate 10.0.0.5 for claim shop/vm",
    "of one subnet the first",
  ],
  [
    { ...wishing, wishes: ["10.0.0.5/29", "10.0.0.3/29"], allocated: ["10.0.0.5"] },
    "ADDRESS_TAKEN of vm by free space: 10.0.0.5",
    "and none in its place",
  ],
  [
    { ...wishing, ...TWO, wishes: ["10.9.0.5/29", "10.1.0.3/29", "10.0.0.5/29", "10.1.0.4/29"] },
    "allocate 10.0.0.5 10.1.0.3 for claim shop/vm",
    "of each subnet the first that lies in it, in the order of the subnets",
  ],
  [
    { ...wishing, ...TWO, wishes: ["10.1.0.3/29"] },
    "allocate 10.0.0.4 10.1.0.3 for claim shop/vm",
    "of a subnet for which it wishes nothing, one as for any claim",
  ],
  [
    { ...wishing, wishes: ["10.9.0.5/29", "10.8.0.5/29"] },
    "ADDRESS_OUTSIDE of vm by free space: 10.9.0.5",
    "of no subnet: the first is named",
  ],
  [{ ...wishing, wishes: ["10.0.0.7/29"] }, "ADDRESS_EXCLUDED of vm by free space: 10.0.0.7", "nobody may have it"],
  [
    { ...wishing, reserved: ["02:00:00:00:00:01 10.0.0.5"] },
    "ADDRESS_RESERVED of vm by free space: 10.0.0.5",
    "kept for a MAC that is not its own",
  ],
  [
    { ...wishing, allocated: ["10.0.0.5"] },
    "ADDRESS_TAKEN of vm by free space: 10.0.0.5 is held by pod shop/b (eth0)",
    "another has it, who is named",
  ],
  [{ ...wishing, cooling: ["10.0.0.5"] }, "allocate 10.0.0.5 for claim shop/vm", "what cools of another is free"],
  [
    { ...wishing, requested: ["10.0.0.3"], cooling: ["10.0.0.3", "10.0.0.5"] },
    "ADDRESS_COOLING of vm by free space: 10.0.0.3",
    "for the list alone, not for what the VM asks for",
  ],
  [
    { ...wishing, requested: ["10.0.0.6"] },
    "allocate 10.0.0.6 for claim shop/vm",
    "where the VM asks for another of that subnet, that",
  ],
  [
    { ...wishing, ...TWO, requested: ["10.1.0.6"] },
    "allocate 10.0.0.5 10.1.0.6 for claim shop/vm",
    "and of another subnet, both",
  ],
  [
    { ...wishing, claim: { ips: ["10.0.0.5/29"], ipRequests: ["10.0.0.3"] } },
    "allocate 10.0.0.3 for claim shop/vm",
    "as what the claim itself asks for does",
  ],
  [{ ...wishing, bound: ["10.0.0.3/29"] }, "reuse 10.0.0.3/29 for claim shop/vm", "who has something wishes nothing"],
  [
    { ...wishing, bound: ["10.0.0.3/29"], allocated: ["10.0.0.5"] },
    "reuse 10.0.0.3/29 for claim shop/vm",
    "and is not refused for it",
  ],
  [{ ...wishing, ...TWO, bound: ["10.1.0.3/29"] }, "reuse 10.1.0.3/29 for claim shop/vm", "nor of another subnet"],
  [
    { ...wishing, ...TWO, ownCooling: ["10.1.0.3/29"] },
    "allocate 10.0.0.5 10.1.0.3 for claim shop/vm",
    "what it had last, and what it wishes of the other subnet",
  ],
  [
    { ...wishing, ownCooling: ["10.0.0.3/29"] },
    "allocate 10.0.0.3 for claim shop/vm",
    "what it had last comes before what it wishes of the same subnet",
  ],
  [
    { ...wishing, mayMove: true, bound: ["10.0.0.3/29"], requested: ["10.0.0.6"] },
    "allocate 10.0.0.6 for claim shop/vm in place of 10.0.0.3/29",
    "nor where it moves",
  ],
  [
    { claim: mine, unreadable: "10.0.0.500" },
    "REQUEST_INVALID of vm: status.ips of claim shop/vm is 10.0.0.500",
    "an entry that nobody can read",
  ],
  [{ claim: mine, unreadable: "x", users: [{}] }, "REQUEST_INVALID", "which comes before who uses the claim"],
  [
    { claim: { network: "red", ips: ["10.0.0.5/29"] }, mayFollow: true, wishes: [] },
    "allocate 10.0.0.4 for claim shop/vm",
    "a claim of another network wishes nothing here",
  ],
]);

const MAC = "02:00:00:00:00:01";
const reserving = { reserved: [`${MAC} 10.0.0.1`, "02:00:00:00:00:02 10.0.0.3"] } as const;
table("what is reserved for a MAC", [
  [{ ...reserving, mac: MAC }, "allocate 10.0.0.1 for container new", "its own"],
  [{ ...reserving, mac: "02-00-00-00-00-01" }, "allocate 10.0.0.1", "in another spelling"],
  [{ ...reserving, mac: "02:00:00:00:00:02" }, "allocate 10.0.0.3", "another one's own"],
  [reserving, "allocate 10.0.0.2", "nobody gets it without the MAC"],
  [{ ...reserving, mac: "garbage" }, "allocate 10.0.0.2", "nor with something else"],
  [
    { ...reserving, requested: ["10.0.0.1"] },
    `ADDRESS_RESERVED by free space: 10.0.0.1 of network blue is reserved for ${MAC}`,
    "nor by asking for it",
  ],
  [
    { ...reserving, mac: "02:00:00:00:00:03", requested: ["10.0.0.1"] },
    "ADDRESS_RESERVED by free space",
    "nor with another MAC",
  ],
  [{ ...reserving, mac: MAC, requested: ["10.0.0.1"] }, "allocate 10.0.0.1", "who asks for the same"],
  [
    { ...reserving, mac: MAC, requested: ["10.0.0.2"] },
    `CONFIG_INVALID by free space: the reservation of ${MAC} is 10.0.0.1: runtimeConfig.ips asks for 10.0.0.2 already`,
    "who asks for another one",
  ],
  [
    { ...reserving, mac: MAC, subnets: "10.0.0.0/29,fd00::/64", requested: ["fd00::7"] },
    "allocate 10.0.0.1 fd00::7",
    "who asks for one of another subnet gets both",
  ],
  [{ ...reserving, mac: MAC, allocated: ["10.0.0.1"] }, "ADDRESS_TAKEN", "whoever had it before has it still"],
  [{ ...reserving, ownCooling: ["10.0.0.1/29"] }, "allocate 10.0.0.2", "what cools down of it goes to nobody else"],
  [
    { ...reserving, mac: MAC, pod: "p", bound: ["10.0.0.5/29"], attached: [{ pod: "p" }] },
    "reuse 10.0.0.5/29 for pod shop/p",
    "a pod keeps what it has over a new sandbox",
  ],
  [{ ...reserving, mac: MAC, claim: mine, bound }, "reuse 10.0.0.5/29", "a claim of no VM keeps what it has"],
  [
    { ...reserving, mac: MAC, claim: mine, bound, mayMove: true },
    "allocate 10.0.0.1 for claim shop/vm in place of 10.0.0.5/29",
    "a VM gets it at its next start",
  ],
  [
    { ...reserving, mac: MAC, claim: mine, bound, mayMove: true, ...migrating },
    "reuse 10.0.0.5/29 for claim shop/vm; warns AddressKept",
    "and not while it migrates",
  ],
  [
    { ...reserving, allocated: ["10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"] },
    "POOL_FULL by free space",
    "a network whose other addresses are given is full",
  ],
]);

table("the bridge's own address", [
  [
    { gateway: "10.0.0.1", bridgeIsGateway: true, gatewayHolder: "pod shop/b (eth0)" },
    "GATEWAY_HELD: 10.0.0.1, the gateway's address of network blue, is held by pod shop/b (eth0)",
    "whoever came first keeps it",
  ],
  [
    { gateway: "10.0.0.1", gatewayHolder: "pod shop/b (eth0)" },
    "allocate 10.0.0.2",
    "without a bridge that takes it nobody is in its way",
  ],
  [
    { gateway: "10.0.0.1", bridgeIsGateway: true, gatewayHolder: "unread" },
    "read gateway",
    "looked up where it may be held",
  ],
  [
    { gateway: "10.0.0.1", bridgeIsGateway: true, claim: mine, bound, gatewayHolder: "x", users: [{}] },
    "GATEWAY_HELD of vm",
    "comes before who uses the claim",
  ],
  [
    { gateway: "10.0.0.1", bridgeIsGateway: true, claim: mine, gatewayHolder: "x", holdings: "unread" },
    "GATEWAY_HELD of vm",
    "and before its addresses are read",
  ],
]);

table("who uses the claim", [
  [
    { claim: mine, bound, attached: [{}] },
    "CLAIM_IN_USE of vm: IPAMClaim shop/vm is used by container old (eth0)",
    "another container",
  ],
  [
    { claim: mine, bound, attached: [{ pod: "q" }] },
    "CLAIM_IN_USE of vm: IPAMClaim shop/vm is used by pod shop/q (eth0)",
    "another pod",
  ],
  [
    { claim: mine, bound, users: [{ pod: "q", node: "b" }] },
    "CLAIM_IN_USE of vm: IPAMClaim shop/vm is used by pod shop/q (eth0) on node b",
    "on another node",
  ],
  [
    { claim: mine, bound, users: [{ node: "b" }] },
    "CLAIM_IN_USE of vm: IPAMClaim shop/vm is used by container old (eth0) on node b",
    "without a pod",
  ],
  [{ claim: mine, bound, users: [{ id: "new" }] }, "reuse", "its own earlier attempt"],
  [
    { pod: "p", claim: mine, bound, users: [{ pod: "p", us: 900 }] },
    "reuse",
    "the same pod's older sandbox, of which this node's journal does not know",
  ],
  [
    { pod: "p", claim: mine, bound, users: [{ pod: "p", interface: "net1" }], mayShare: true },
    "CLAIM_IN_USE",
    "another interface of the same pod",
  ],
  [{ claim: mine, bound, attached: [{ gone: true }], users: [{}] }, "reuse", "one that is replaced"],
  [{ claim: mine, bound, users: [{}], usersGone: true }, "reuse", "one whose namespace is gone"],
  [{ claim: mine, bound, users: [{ pod: "q" }], mayShare: true }, "reuse", "the same VM, which migrates"],
  [
    { claim: mine, bound, users: [{ pod: "q" }], mayShare: "unread" },
    "read other user",
    "asked of the API, and of nobody whom the journal explains",
  ],
  [{ claim: mine, bound, users: "unread" }, "read users", "not known yet"],
  [{ claim: mine, bound, users: [{}], requested: ["10.0.0.6"] }, "CLAIM_IN_USE", "comes before what is asked for"],
  [{ claim: {}, persistent: false, users: [{}] }, "allocate", "of an ignored claim nobody cares"],
]);

table("addresses that the owner has", [
  [{ claim: mine, bound }, "reuse 10.0.0.5/29 for claim shop/vm", "a claim's are never given anew"],
  [{ claim: mine, holdings: "unread" }, "read holdings", "read once it is known who the owner is"],
  [
    { claim: mine, unreleased: "10.0.0.5" },
    "PREDECESSOR_HOLDS of vm: 10.0.0.5 of network blue is not released yet from the deleted IPAMClaim shop/vm, the predecessor of this one",
    "a claim that was created again too soon",
  ],
  [
    { claim: { ...mine, ipRequests: ["10.0.0.6"] }, bound },
    "reuse 10.0.0.5/29",
    "what the claim asks for counts at its first use only",
  ],
  [
    { claim: mine, bound: ["10.0.0.5/30"] },
    "reuse 10.0.0.5/29 for claim shop/vm",
    "a start after the network was enlarged",
  ],
  [
    { claim: mine, bound: ["10.0.0.5/30"], users: [{ pod: "q" }], mayShare: true },
    "reuse 10.0.0.5/30 for claim shop/vm",
    "a migration after the network was enlarged: the guest goes on running with what it has",
  ],
  [
    { claim: mine, bound: ["10.0.0.5/30"], mayRenew: false },
    "reuse 10.0.0.5/30 for claim shop/vm",
    "a start where somebody else renews what claims list",
  ],
  [{ claim: mine, bound, requested: ["10.0.0.5/29"] }, "reuse", "the runtime asks for what it has"],
  [{ claim: mine, bound, requested: ["10.0.0.6"] }, "REQUEST_MISMATCH of vm", "the runtime asks for something else"],
  [{ claim: { ips: ["10.9.0.5/29"] }, bound: ["10.9.0.5/29"] }, "reuse 10.9.0.5/29", "kept outside the present ranges"],
  [
    { claim: { ips: ["10.9.0.5/29"] }, adopted: ["10.9.0.5/29"] },
    "ADDRESS_OUTSIDE of vm",
    "unless it came from outside",
  ],
  [
    { claim: mine, bound: ["10.0.0.5/29", "10.0.0.6/29"], onePerFamily: true },
    "VERSION_TOO_NARROW of vm",
    "more than the version can carry",
  ],
  [{ claim: mine, bound, allocated: FULL }, "reuse", "a full network is none of its business"],
]);

table("new addresses", [
  [{}, "allocate 10.0.0.1 for container new (eth0)", "the next one, for a container"],
  [{ pod: "p" }, "allocate 10.0.0.1 for pod shop/p (eth0)", "for a pod's interface"],
  [{ claim: {} }, "allocate 10.0.0.4 for claim shop/vm", "for a claim, from the hash of its UID on"],
  [{ subnets: "10.0.0.0/29,fd00::/125" }, "allocate 10.0.0.1 fd00::1", "one of each subnet"],
  [{ pod: "p", ownCooling: ["10.0.0.6/29"] }, "allocate 10.0.0.6", "its own that still cools down first"],
  [{ requested: ["10.0.0.6"] }, "allocate 10.0.0.6", "what the runtime asks for"],
  [{ claim: { ipRequests: ["10.0.0.6"] } }, "allocate 10.0.0.6", "what the claim asks for at its first use"],
  [{ claim: { ipRequests: ["10.0.0.6"] }, requested: ["10.0.0.6/29"] }, "allocate 10.0.0.6", "both ask for the same"],
  [
    { claim: { ipRequests: ["10.0.0.6"] }, requested: ["10.0.0.2"] },
    "CONFIG_INVALID of vm",
    "they ask for two addresses of one subnet",
  ],
  [
    { claim: { ipRequests: ["nonsense"] } },
    "CONFIG_INVALID of vm: claim shop/vm spec.ipRequests is",
    "the claim asks for no address",
  ],
  [
    { requested: ["10.0.0.6"], allocated: ["10.0.0.6"] },
    "ADDRESS_TAKEN by free space: 10.0.0.6 is held by pod shop/b (eth0)",
    "somebody has it",
  ],
  [
    { requested: ["10.0.0.6"], cooling: ["10.0.0.6"] },
    "ADDRESS_COOLING by free space",
    "somebody had it a moment ago, and may still run",
  ],
  [
    { requested: ["10.0.0.6"], cooling: ["10.0.0.6"], mayReturn: true },
    "allocate 10.0.0.6",
    "whoever had it a moment ago has certainly ended",
  ],
  [{ requested: ["10.9.0.6"] }, "ADDRESS_OUTSIDE by free space", "the network has no such address"],
  [{ requested: ["10.0.0.7"] }, "ADDRESS_EXCLUDED by free space", "nobody may have it"],
  [{ allocated: FULL }, "POOL_FULL by free space: no free address in 10.0.0.0/29 of network blue", "nothing is left"],
  [
    { subnets: "10.0.0.0/29,10.1.0.0/29", onePerFamily: true },
    "VERSION_TOO_NARROW",
    "two of one family in a version that carries one",
  ],
  [
    { subnets: "10.0.0.0/29,10.1.0.0/29", onePerFamily: true, allocated: FULL },
    "POOL_FULL",
    "a full network comes before the version",
  ],
]);

test("a repeat that this node's journal knows needs no claim", () => {
  const view = viewOf({ former: { claim: "shop/vm", pod: "p" }, pod: "p" });
  expect(decideRepeat(view, { claimKnown: false })).toMatchObject({ kind: "repeat" });
  expect(decideRepeat(view, { claimKnown: true })).toBeNull();
});

test("a decision is the same when it is made again from the same view", () => {
  const view = viewOf({ claim: {}, subnets: "10.0.0.0/29,fd00::/125" });
  const first = decideAttach(view);
  const second = decideAttach(view);
  const candidates = (one: typeof first) =>
    one?.kind === "allocate" ? one.slots.map((slot) => [...slot.candidates]) : null;
  expect(candidates(second)).toEqual(candidates(first));
  expect(candidates(first)).not.toBeNull();
});

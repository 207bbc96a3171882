/** What the tests of the sweep are about: its rules, the allocations that it judges, and what is known around them. */
import { expect } from "vitest";
import { newAllocation, soundAddress } from "../../allocations/allocation-object.ts";
import {
  type ClaimFact,
  type Facts,
  type Found,
  type MachineFacts,
  type NamingPod,
  type NodeFact,
  type PodFact,
  present,
  type ReportedAddress,
  UNKNOWN,
  type Wants,
} from "../../claims/reasons/facts.ts";
import { judge } from "../../claims/reasons/relations.ts";
import type { JudgedAllocation, Rules, Verdict } from "../../claims/reasons/verdict.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import type { AllocationAttachment, AllocationOwner, IPAllocation } from "../../kube/objects.ts";
import { define } from "../ipam/definitions.ts";

export const RULES: Rules = {
  graceSeconds: 30,
  podGoneReleaseSeconds: 0,
  clusterGoneReleaseSeconds: 0,
  coolingKeepSeconds: 600,
  wallMs: () => Date.parse("2026-01-01T00:00:00Z"),
  definitionOf: definitionWith({ cooldownSeconds: 60 }),
};
/** Of network red 10.9.0.0/24, of any other 10.0.0.0/24. */
export function definitionWith(keys: object): Rules["definitionOf"] {
  const of = (subnets: string) => define({ subnets, ...keys }, { allowPersistentIPs: true });
  const [red, others] = [of("10.9.0.0/24"), of("10.0.0.0/24")];
  return (network) => (network === "red" ? red : others);
}
/** Facts of claims where nothing is known of any. */
export const NO_CLAIMS: Pick<Facts, "wants" | "had" | "launcherLives"> = {
  wants: () => UNKNOWN,
  had: () => UNKNOWN,
  launcherLives: () => UNKNOWN,
};
/** Machines' facts where none are followed. */
export const NO_MACHINES: MachineFacts = {
  addressClaim: () => UNKNOWN,
  machineData: () => UNKNOWN,
  machineAddress: () => UNKNOWN,
  boundTo: () => UNKNOWN,
  cluster: () => UNKNOWN,
  addressPools: () => UNKNOWN,
  namespace: () => UNKNOWN,
  wasPaused: () => UNKNOWN,
};
export const CLAIM: AllocationOwner = {
  kind: "IPAMClaim",
  namespace: "shop",
  name: "vm1",
  uid: "c1",
  interface: "",
};
export const POD: AllocationOwner = {
  kind: "Pod",
  namespace: "shop",
  name: "web",
  uid: "p1",
  interface: "net1",
};

const SINCE = "2026-01-01T00:00:00Z";

/** What is known of the objects around an allocation; absent: unknown. */
export interface KnownObjects {
  readonly claim?: Found<ClaimFact>;
  readonly pod?: Found<PodFact>;
  readonly node?: Found<NodeFact>;
  /** By name, before `node`. */
  readonly nodes?: Readonly<Record<string, Found<NodeFact>>>;
  readonly naming?: Found<readonly NamingPod[]>;
  /** UIDs of pods that were seen with all their containers ended. */
  readonly stopped?: readonly string[];
  /** The guest of the claim's VM has migrated into another namespace. */
  readonly hasMigrated?: boolean;
  /** Where the claim is to be. */
  readonly wants?: Found<Wants>;
  /** What the claim has besides. */
  readonly had?: Found<readonly JudgedAllocation[]>;
  /** A launcher of its VM lives. */
  readonly launcher?: Found<boolean>;
}

export function factsOf(known: KnownObjects): Facts {
  return {
    ...NO_MACHINES,
    claim: () => known.claim ?? UNKNOWN,
    pod: () => known.pod ?? UNKNOWN,
    node: (name) => known.nodes?.[name] ?? known.node ?? UNKNOWN,
    wasSeenStopped: (uid) => known.stopped?.includes(uid) ?? false,
    networkOfNad: (nad) => (nad === "shop/red" ? present("red") : nad === "shop/blue" ? present("blue") : UNKNOWN),
    podsNaming: () => known.naming ?? UNKNOWN,
    guestRunsElsewhere: () => known.hasMigrated ?? false,
    wants: () => known.wants ?? UNKNOWN,
    had: () => known.had ?? UNKNOWN,
    launcherLives: () => known.launcher ?? UNKNOWN,
  };
}

export function allocation(
  owner: AllocationOwner,
  attachments: readonly AllocationAttachment[] = [],
  {
    network = "blue",
    address = "10.0.0.5/24",
    ...holder
  }: { readonly node?: string; readonly network?: string; readonly address?: string } = {},
): IPAllocation {
  const base = newAllocation(
    network,
    parseInterfaceAddress(address),
    { owner, attachment: null, ...holder },
    SINCE,
  ) as unknown as IPAllocation;
  return {
    ...base,
    metadata: { ...base.metadata, uid: "a1", resourceVersion: "1" },
    status: {
      ...base.status,
      attachments: Object.fromEntries(attachments.map((one) => [`${one.containerID}/net1`, one])),
    },
  };
}

export function judged(object: IPAllocation): JudgedAllocation {
  return { object, address: soundAddress(object) };
}

export function attached(node = "n1", pod: string | null = "p1"): AllocationAttachment {
  return {
    containerID: `c-${node}`,
    interface: "net1",
    node,
    since: SINCE,
    ...(pod === null ? {} : { pod: { namespace: "shop", name: "web", uid: pod } }),
  };
}

/** Of a VM. `ips`: what it lists. */
export function claimFact(ips: readonly string[], change: Partial<ClaimFact> = {}): ClaimFact {
  return {
    namespace: "shop",
    name: "vm1",
    uid: "c1",
    network: "blue",
    creationTimestamp: "2026-01-01T00:00:10Z",
    isDeleting: false,
    ips,
    vm: { name: "vm", uid: "vm-uid" },
    ...change,
  };
}

export function claim(ips: readonly string[], change: Partial<ClaimFact> = {}): Found<ClaimFact> {
  return present(claimFact(ips, change));
}

/** Where a claim is to be. */
export function wanted(network: string | null, change: Partial<Wants> = {}): Found<Wants> {
  return present({ network, asks: [], vmi: null, nad: `shop/${network ?? "theirs"}`, ...change });
}

export function reported(address: string, nad: string | null = "shop/blue"): ReportedAddress[] {
  return [{ address, nad, network: null }];
}

export function pod(change: Partial<PodFact> = {}): PodFact {
  return {
    uid: "p1",
    node: "n1",
    staticUid: null,
    terminal: false,
    creationTimestamp: "2026-01-01T00:00:05Z",
    addresses: [],
    addressesCut: false,
    ...change,
  };
}

export function naming(
  creationTimestamp: string,
  attachedTo: string | null = null,
  addresses = [{ address: "10.0.0.5", nad: null, network: null }],
): Found<readonly NamingPod[]> {
  const found = pod({ uid: "p9", creationTimestamp, addresses });
  return present([{ ...found, attachedToClaim: (uid) => uid === attachedTo }]);
}

/** The facts, and which of them were asked for. */
function recording(facts: Facts, asked: Set<keyof KnownObjects>): Facts {
  const note = <Args extends unknown[], T>(what: keyof KnownObjects, ask: (...args: Args) => T) => {
    return (...args: Args): T => {
      asked.add(what);
      return ask(...args);
    };
  };
  return {
    ...NO_MACHINES,
    claim: note("claim", facts.claim),
    pod: note("pod", facts.pod),
    node: note("node", facts.node),
    wasSeenStopped: facts.wasSeenStopped,
    networkOfNad: facts.networkOfNad,
    podsNaming: note("naming", facts.podsNaming),
    guestRunsElsewhere: note("hasMigrated", facts.guestRunsElsewhere),
    wants: note("wants", facts.wants),
    had: note("had", facts.had),
    launcherLives: note("launcher", facts.launcherLives),
  };
}

function said(verdict: Verdict): string {
  const after = "afterSeconds" in verdict ? ` after ${verdict.afterSeconds}` : "";
  return `${verdict.kind} ${verdict.why}${after}`;
}

/** A verdict, `after 30` where it waits and says nothing else. */
export type JudgedCase = readonly [
  reason: string,
  object: IPAllocation,
  known: KnownObjects,
  verdict: string,
  rules?: Partial<Rules>,
];

export function expectVerdict([object, known, expected, rules = {}]: readonly [...Tail<JudgedCase>]): void {
  expect(said(judge(judged(object), factsOf(known), { ...RULES, ...rules }))).toBe(
    /^(keep|report|.* after )/.test(expected) ? expected : `${expected} after 30`,
  );
}

/** What is let go of is kept as soon as one fact that was asked for is unknown. */
export function expectKeptUnknown(cases: readonly JudgedCase[], kind: Verdict["kind"]): void {
  const bases = cases.filter(
    ([, object, known, , rules = {}]) => judge(judged(object), factsOf(known), { ...RULES, ...rules }).kind === kind,
  );
  for (const [reason, object, known, , rules = {}] of bases) {
    const asked = new Set<keyof KnownObjects>();
    judge(judged(object), recording(factsOf(known), asked), { ...RULES, ...rules });
    for (const fact of asked) {
      const verdict = judge(
        judged(object),
        factsOf({ ...known, ...(fact === "node" && { nodes: {} }), [fact]: UNKNOWN }),
        { ...RULES, ...rules },
      );
      // What has ended with its node is pruned wherever the VM is to be.
      const kinds = kind === "prune" && fact === "wants" ? ["prune"] : ["keep"];
      expect(kinds, `${reason}: ${fact} unknown`).toContain(verdict.kind);
    }
  }
  expect(bases.length).toBeGreaterThan(3);
}

type Tail<T extends readonly unknown[]> = T extends readonly [unknown, ...infer Rest] ? Rest : never;

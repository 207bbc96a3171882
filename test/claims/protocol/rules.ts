import type { State } from "./model.ts";

/** What people, nodes and others may do, each so often in a world. */
export type Act = "start" | "stop" | "migrate" | "edit" | "ask" | "crash" | "lose" | "restore" | "strange" | "token";

export interface SmallWorld {
  readonly about: string;
  /** VMs, each with a claim: one by default. */
  readonly vms?: number;
  readonly may: Readonly<Partial<Record<Act, number>>>;
  /** What is there before anything happens; a claim that was never used by default. */
  readonly begin?: (state: State) => State;
  /** A controller and its sweep run. */
  readonly hasController?: boolean;
  /** Nobody else writes the claim, so that whatever ADD waits has to succeed. */
  readonly isPeaceful?: boolean;
  /** Networks to which VM 0 is edited. */
  readonly networks?: readonly number[];
  /** Addresses for which VM 0 asks. */
  readonly asked?: readonly number[];
  /** What strangers write into the list of claim 0. */
  readonly lists?: readonly (readonly number[])[];
  /** Addresses of each network. */
  readonly addresses?: number;
  /** The address that no ADD may give. */
  readonly gateway?: number;
  /** Only a list says what claim 0 is to have: nothing reserves for it but one ADD and one wish. */
  readonly hasOnlyWishes?: boolean;
  /** The networks retain what gone claims had: an ADD that has found nothing lists by label, also at a first use. */
  readonly retains?: boolean;
  readonly entriesMax?: number;
  /** Pods name claim 0 without a VM. */
  readonly isWithoutVm?: boolean;
  /** A node appends what its own containers use and the list lacks. */
  readonly hasAppendingNodes?: boolean;
}

/** Ways to break the protocol; faults.ts says what each of them is. */
export const FAULT_NAMES = [
  "node-replaces-the-list",
  "no-list-by-label",
  "keeps-earlier-rounds",
  "listed-needs-no-write",
  "list-is-believed",
  "empty-is-first",
  "wish-before-own",
  "target-gets-what-is-asked",
  "no-owner-check",
  "publish-before-reserve",
  "sweep-by-pointer",
  "sweep-unlisted",
  "moved-by-wish-alone",
  "left-by-template",
  "asked-does-not-keep",
  "target-trusts-the-list",
  "attached-is-used",
  "released-before-listed",
  "asked-counts",
  "release-any-version",
  "gone-pod-has-ended",
  "every-wish",
  "wish-excluded",
  "empty-is-unwritten",
  "append-drops-an-entry",
] as const;
export type Fault = (typeof FAULT_NAMES)[number];

/** A world, and what is wrong with the protocol in it. */
export interface Rules {
  readonly world: SmallWorld;
  readonly addresses: number;
  /** Of a list: beyond it an ADD answers without an entry, and the controller leaves out the last. */
  readonly entriesMax: number;
  readonly faults: ReadonlySet<Fault>;
}

const ADDRESSES = 3;
const ENTRIES_MAX = 16;

export function rulesOf(world: SmallWorld, faults: readonly Fault[] = []): Rules {
  const { addresses = ADDRESSES, entriesMax = ENTRIES_MAX } = world;
  return { world, addresses, entriesMax, faults: new Set(faults) };
}

/** An address that an ADD could give. */
export function isUsable({ world, addresses }: Rules, address: number): boolean {
  return address < addresses && address !== world.gateway;
}

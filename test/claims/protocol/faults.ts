import type { Fault } from "./rules.ts";
import type { Property } from "./violation.ts";
import type { WorldName } from "./worlds.ts";

interface PlantedFault {
  /** What is wrong with the protocol. */
  readonly why: string;
  /** Where a search finds it, and the property that it violates there. */
  readonly world: WorldName;
  readonly violates: Property;
}

/** What each rule of the protocol is good for: without it some property is violated in some world. */
export const FAULTS: Readonly<Record<Fault, PlantedFault>> = {
  "node-replaces-the-list": {
    why: "a node may write another list, not only a longer one",
    world: "token",
    violates: "taken-away",
  },
  "no-list-by-label": {
    why: "the list is the only way to what a claim has",
    world: "retaining",
    violates: "another-address",
  },
  "keeps-earlier-rounds": {
    why: "an ADD that decides again leaves its pod attached to what it does not use",
    world: "stranger-first",
    violates: "another-address",
  },
  "listed-needs-no-write": {
    why: "an ADD that reserves a listed address does not write the claim at the version that it has read",
    world: "restore",
    violates: "taken-away",
  },
  "list-is-believed": {
    why: "an ADD takes what is listed and free, and does not look for what the claim has",
    world: "stranger",
    violates: "another-address",
  },
  "empty-is-first": {
    why: "an empty list counts as a first use",
    world: "stranger",
    violates: "another-address",
  },
  "wish-before-own": {
    why: "a listed address that is free is taken, although the claim has another",
    world: "stranger",
    violates: "another-address",
  },
  "target-gets-what-is-asked": {
    why: "the target of a migration gets what its VM asks for by now",
    world: "ask",
    violates: "another-address",
  },
  "no-owner-check": {
    why: "an allocation is joined whoever owns it",
    world: "first-crash-restart",
    violates: "taken-away",
  },
  "publish-before-reserve": {
    why: "an address is listed before it is reserved",
    world: "first-crash-restart",
    violates: "unanswered",
  },
  "sweep-by-pointer": {
    why: "an address is released because spec.network names another network",
    world: "stranger-controller",
    violates: "taken-away",
  },
  "sweep-unlisted": {
    why: "an address is released because the list lacks it",
    world: "stranger-controller",
    violates: "taken-away",
  },
  "moved-by-wish-alone": {
    why: "an address is released because the VM is to be on another network, where the claim has nothing yet",
    world: "follow-controller",
    violates: "taken-away",
  },
  "left-by-template": {
    why: "the template of a VM that is stopped or runs elsewhere counts as evidence that it has left",
    world: "left",
    violates: "taken-away",
  },
  "asked-does-not-keep": {
    why: "what the VM asks for and was answered is released before its use is seen",
    world: "ask-controller",
    violates: "taken-away",
  },
  "target-trusts-the-list": {
    why: "the target of a migration takes what is listed, although its source runs with another address",
    world: "leftover",
    violates: "another-address",
  },
  "attached-is-used": {
    why: "an ADD under way counts as a use, and what the VM had is released",
    world: "ask-controller",
    violates: "taken-away",
  },
  "released-before-listed": {
    why: "an address is released while its claim says something else than what it has",
    world: "ask-controller",
    violates: "another-address",
  },
  "asked-counts": {
    why: "what is asked for counts before anybody uses it",
    world: "ask-controller",
    violates: "not-at-rest",
  },
  "release-any-version": {
    why: "a release does not carry the version of what was judged",
    world: "follow-controller",
    violates: "taken-away",
  },
  "gone-pod-has-ended": {
    why: "a pod whose object is gone counts as ended",
    world: "lost-node",
    violates: "taken-away",
  },
  "every-wish": {
    why: "each listed address is reserved",
    world: "wish",
    violates: "reserved-by-list",
  },
  "wish-excluded": {
    why: "a listed gateway is reserved",
    world: "wish",
    violates: "reserved-by-list",
  },
  "empty-is-unwritten": {
    why: "without a VM an empty list counts as a status that was never written",
    world: "without-vm",
    violates: "another-address",
  },
  "append-drops-an-entry": {
    why: "an ADD makes room in a list that is full",
    world: "full-list",
    violates: "taken-away",
  },
};

/** The idea before it was corrected: nodes replace list and pointer, and nothing else leads to what a claim has. */
export const AS_FIRST_THOUGHT: readonly Fault[] = ["node-replaces-the-list", "no-list-by-label"];

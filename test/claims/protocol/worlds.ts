import { claimOf, NOTHING_PROMISED, NOWHERE, type State, withAllocation, withList, withVm } from "./model.ts";
import type { SmallWorld } from "./rules.ts";

/** VM 0 has run with an address of network 0, and is stopped. */
function hadAddress(first: State, address: number): State {
  const had = withAllocation(first, 0, address, { owner: claimOf(first, 0).uid, pods: [] });
  const promised = had.promised.with(0, [{ ...NOTHING_PROMISED, address }, NOTHING_PROMISED]);
  return withVm(withList({ ...had, promised }, 0, [address]), 0, { instances: 2 });
}

/** With the address at which its search begins. */
const hasRun = (first: State): State => hadAddress(first, 1);
/** With another one, which no search would find by chance. */
const hasRunFarAway = (first: State): State => hadAddress(first, 2);

/** The same, and an ADD cut short has left a second address, which is not listed. */
function hasLeftover(first: State): State {
  return withAllocation(hasRun(first), 0, 2, { owner: claimOf(first, 0).uid, pods: [] });
}

/** Nobody but the VM's own parts writes, without a controller at first. */
export const PEACE = {
  "first-crash-restart": {
    about: "two VMs whose search begins at one address, and ADDs that are cut short anywhere",
    vms: 2,
    may: { start: 3, stop: 2, crash: 2 },
    isPeaceful: true,
  },
  migrate: {
    about: "migrations that succeed, fail and are given up",
    may: { start: 2, stop: 1, migrate: 3, crash: 2 },
    isPeaceful: true,
  },
  follow: {
    about: "to another network and back, also undone",
    may: { start: 2, stop: 1, migrate: 2, edit: 2, crash: 2 },
    isPeaceful: true,
  },
  ask: {
    about: "another address is asked for, and asked for no more",
    may: { start: 2, stop: 2, migrate: 1, ask: 2, crash: 1 },
    begin: hasRun,
    asked: [0, 2],
    isPeaceful: true,
  },
  "follow-controller": {
    about: "to another network beside controller and sweep",
    may: { start: 2, stop: 1, migrate: 2, edit: 2 },
    begin: hasRun,
    hasController: true,
    isPeaceful: true,
  },
  "follow-crash-controller": {
    about: "the same, with an ADD that is cut short",
    may: { start: 2, stop: 1, migrate: 1, edit: 2, crash: 1 },
    hasController: true,
    isPeaceful: true,
  },
  "ask-controller": {
    about: "an address that is asked for beside controller and sweep",
    may: { start: 2, stop: 1, migrate: 1, ask: 2, crash: 1 },
    begin: hasRun,
    asked: [2],
    hasController: true,
    isPeaceful: true,
  },
  left: {
    about: "to another plugin's network, and back",
    may: { start: 2, stop: 1, migrate: 2, edit: 2 },
    begin: hasRun,
    networks: [0, NOWHERE],
    hasController: true,
    isPeaceful: true,
  },
  "lost-node": {
    about: "a guest that runs on without its pod, beside another VM",
    vms: 2,
    may: { start: 2, stop: 1, lose: 1, edit: 1 },
    begin: hasRun,
    hasController: true,
  },
} as const satisfies Record<string, SmallWorld>;

/** Strangers write list and pointer. */
export const STRANGERS = {
  stranger: {
    about: "list and pointer are written over, beside another VM and without a controller",
    vms: 2,
    may: { start: 3, stop: 1, migrate: 1, strange: 2 },
    lists: [[], [1], [2], [2, 1]],
  },
  "stranger-crash": {
    about: "the same beside an ADD that is cut short",
    may: { start: 2, stop: 1, migrate: 1, crash: 1, strange: 1 },
    lists: [[], [0], [2]],
  },
  "stranger-controller": {
    about: "the same beside controller and sweep",
    may: { start: 2, stop: 1, migrate: 1, strange: 2 },
    begin: hasRun,
    lists: [[], [0], [2, 1]],
    hasController: true,
  },
  "stranger-asks": {
    about: "the same while the VM asks for another address",
    may: { start: 2, stop: 1, migrate: 1, ask: 1, strange: 1 },
    begin: hasRun,
    asked: [2],
    lists: [[], [0], [2]],
    hasController: true,
  },
  "stranger-first": {
    about: "the same during the first use",
    may: { start: 2, stop: 1, migrate: 1, strange: 2 },
    lists: [[], [2, 1, 0]],
    hasController: true,
  },
  "stranger-follow": {
    about: "the same while the VM moves",
    may: { start: 2, stop: 1, migrate: 1, edit: 1, strange: 1 },
    begin: hasRun,
    lists: [[], [0]],
    hasController: true,
  },
  leftover: {
    about: "what an ADD cut short has left is listed",
    may: { start: 2, stop: 1, migrate: 1, strange: 1 },
    begin: hasLeftover,
    lists: [[], [2], [2, 1]],
    hasController: true,
  },
} as const satisfies Record<string, SmallWorld>;

/** What a list or a token reaches, and what a claim is that somebody brings along. */
export const REACH = {
  wish: {
    about: "a claim that has nothing lists a gateway, or several of one subnet",
    may: { start: 1, strange: 2 },
    addresses: 5,
    gateway: 4,
    lists: [[4], [1, 0], [0, 1, 2, 3, 4]],
    hasController: true,
    hasOnlyWishes: true,
  },
  token: {
    about: "a node's token creates allocations of the claim, and appends to its list",
    may: { start: 1, stop: 1, migrate: 1, token: 3 },
    begin: hasRun,
    hasController: true,
  },
} as const satisfies Record<string, SmallWorld>;

export const RESTORED = {
  restore: {
    about: "a new UID with the old list, at once or late, beside another VM",
    vms: 2,
    may: { start: 2, stop: 1, restore: 1, strange: 1 },
    begin: hasRun,
    lists: [[1], [0]],
    hasController: true,
  },
} as const satisfies Record<string, SmallWorld>;

/** Rules of the product beside the protocol. */
export const VARIANTS = {
  retaining: {
    about: "networks that retain: an ADD lists by label also at the first use, beside a stranger",
    may: { start: 2, stop: 1, migrate: 1, crash: 1, strange: 1 },
    lists: [[], [0], [2]],
    retains: true,
    hasController: true,
  },
  "full-list": {
    about:
      "lists that are full, so that an ADD answers without an entry, while the VM moves and asks for another address",
    may: { start: 2, stop: 1, migrate: 1, edit: 1, ask: 1, strange: 1 },
    begin: hasRun,
    asked: [2],
    lists: [[], [0]],
    entriesMax: 1,
    hasController: true,
  },
  "appending-nodes": {
    about: "nodes that append what their containers use, beside a stranger while the VM moves",
    may: { start: 2, stop: 1, migrate: 1, edit: 1, strange: 2 },
    begin: hasRun,
    lists: [[], [0]],
    hasAppendingNodes: true,
    hasController: true,
  },
  "without-vm": {
    about: "a claim of no VM, whose first use is a status that was never written, beside a stranger and another claim",
    vms: 2,
    may: { start: 3, stop: 2, crash: 1, strange: 1 },
    begin: hasRunFarAway,
    lists: [[], [0]],
    isWithoutVm: true,
    hasController: true,
  },
} as const satisfies Record<string, SmallWorld>;

export const WORLDS = { ...PEACE, ...STRANGERS, ...REACH, ...RESTORED, ...VARIANTS };
export type WorldName = keyof typeof WORLDS;

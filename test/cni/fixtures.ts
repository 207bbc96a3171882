/**
 * What the scripts of this directory are written with: a real daemon, the real plugin binary, real namespaces.
 *
 *   test("a container gets an address", async ({ daemon }) => {
 *     const answer = await daemon.cni("ADD", "c1", { config: network("blue") });
 *     expect(addressesOf(answer)).toEqual(["10.10.0.1/24"]);
 *   });
 *
 * The daemon is in the process of the test; `processTest` has one in a process of its own.
 * After every such test the daemon checks its own state, and finding anything fails the test.
 */
import { test as base, expect } from "vitest";
import type { AllocationView, HistoryView, NetworkView } from "../../allocations/records.ts";
import type { CniError } from "../../cni-shim/wire.ts";
import {
  type CniAnswer,
  type DaemonOptions,
  forgetBoot,
  network,
  run,
  type ServedDaemon,
  TestDaemon,
} from "../harness/daemon.ts";
import { DaemonHere } from "../harness/daemon-here.ts";
import { skippedFor } from "../harness/needs.ts";

export {
  type CniAnswer,
  network,
  newDirectory,
  run,
  runShim,
  type ServedDaemon,
  TestDaemon,
} from "../harness/daemon.ts";
export { until } from "../harness/wait.ts";

/** The latest process on the directory of a daemon that was restarted. */
const latest = new WeakMap<ServedDaemon, TestDaemon>();

/** `test` with a daemon of its own for each test. */
export const test = testWith();

/** The same with flags for the daemon. */
export function testWith(...args: readonly string[]) {
  return (
    base
      // biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern what a fixture needs
      .extend("daemon", async ({}, { onCleanup }) => cleanedUp(await DaemonHere.start(args), onCleanup))
      .extend("namespaces", async ({ skip }, { onCleanup }) => makeNamespaces(skip, onCleanup))
  );
}

/** `test` with a daemon that is a process of its own, to be killed, restarted or told to end. */
export const processTest = processTestWith();

/** The same with options for the daemon. */
export function processTestWith(options: DaemonOptions = {}) {
  return (
    base
      // biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern what a fixture needs
      .extend("daemon", async ({}, { onCleanup }) => cleanedUp(await TestDaemon.start(options), onCleanup))
      .extend("namespaces", async ({ skip }, { onCleanup }) => makeNamespaces(skip, onCleanup))
  );
}

/** `test` with one daemon for all tests of a file, for tables: give each row a network of its own. */
export const tableTest = tableTestWith();

/** The same with flags for the daemon. */
export function tableTestWith(...args: readonly string[]) {
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads from the pattern what a fixture needs
  return base.extend("daemon", { scope: "file" }, async ({}, { onCleanup }) =>
    cleanedUp(await DaemonHere.start(args), onCleanup),
  );
}

function cleanedUp<D extends ServedDaemon>(daemon: D, onCleanup: (act: () => Promise<void>) => void): D {
  onCleanup(async () => {
    try {
      await expectSound(daemon);
    } finally {
      await (latest.get(daemon) ?? daemon).stop();
    }
  });
  return daemon;
}

/** Ends the daemon by a signal and starts another on its directory; `daemon` goes on talking to the new one. */
export async function restart(daemon: TestDaemon, signal: NodeJS.Signals, args: readonly string[] = []) {
  await (latest.get(daemon) ?? daemon).end(signal);
  latest.set(daemon, await TestDaemon.start({ directory: daemon.directory, args }));
}

/** As `restart`, with what the end of the machine takes away. */
export async function reboot(daemon: TestDaemon, signal: NodeJS.Signals, args: readonly string[] = []) {
  await (latest.get(daemon) ?? daemon).end(signal);
  forgetBoot(daemon.directory);
  await restart(daemon, signal, args);
}

export async function expectSound(daemon: ServedDaemon): Promise<void> {
  const { findings } = (await daemon.get("/v1/check")).json();
  // Most tests of metadata have nobody who makes listeners.
  const others = findings.filter(({ invariant }: { invariant: string }) => invariant !== "metadata");
  expect(others, "what the daemon's own check finds").toEqual([]);
}

let served = 0;

/** Whatever happened before, the next good request is served and the daemon's books are in order. */
export async function expectServing(daemon: ServedDaemon): Promise<void> {
  served += 1;
  expect(addressesOf(await daemon.cni("ADD", `good-${served}`, { config: network("good") }))).toHaveLength(1);
  await expectSound(daemon);
}

/** The addresses of an ADD that must have succeeded. */
export function addressesOf(answer: CniAnswer): string[] {
  expect(answer, answer.stdout).toMatchObject({ code: 0, stderr: "" });
  return answer.json().ips.map((ip: { address: string }) => ip.address);
}

/** The CNI error of a call that must have failed, with nothing but it on stdout. */
export function errorOf(answer: CniAnswer): CniError {
  expect(answer, answer.stdout).toMatchObject({ code: 1, stderr: "" });
  const error: CniError = answer.json();
  expect(Object.keys(error)).toEqual(["cniVersion", "code", "msg", "details"]);
  return error;
}

/** A call that must have succeeded without a word, as DEL, CHECK, GC and STATUS do. */
export function expectDone(answer: CniAnswer): void {
  expect(answer).toMatchObject({ code: 0, stdout: "", stderr: "" });
}

/** CNI_ARGS of a pod, as kubelet's runtime passes them. */
export function pod(uid: string, name = uid): string {
  return `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};K8S_POD_UID=${uid}`;
}

/** What the daemon lists of a network: `10.10.0.1/24 Bound container c1 (eth0)`. */
export async function held(daemon: ServedDaemon, network: string): Promise<string[]> {
  const { items } = (await daemon.get(`/v1/allocations?network=${network}`)).json();
  return items.map(({ address, state, owner }: AllocationView) => {
    const who = owner.kind === "container" ? owner.uid : `${owner.namespace}/${owner.name}`;
    return `${address} ${state} ${owner.kind} ${who}${owner.interface === "" ? "" : ` (${owner.interface})`}`;
  });
}

/** Counts of the first range of a network, as numbers. */
export async function counts(daemon: ServedDaemon, network: string) {
  const view: NetworkView = (await daemon.get(`/v1/networks/${network}`)).json();
  const { size, allocated, retained, cooling, free, excluded } = view.ranges[0] as NetworkView["ranges"][number];
  const numbers = { allocated: +allocated, cooling: +cooling, free: +free, excluded: +excluded };
  expect(Object.values(numbers).reduce((a, b) => a + b, +retained)).toBe(Number(size));
  return numbers;
}

/** Past of an address, newest first: `container c1 until DEL`, `claim default/vm1 holds`. */
export async function past(daemon: ServedDaemon, address: string): Promise<string[]> {
  const { items } = (await daemon.get(`/v1/history?address=${address}`)).json();
  return items.map(({ containerID, owner, endedBy }: HistoryView) => {
    const who = containerID === null ? `${owner.kind} ${owner.namespace}/${owner.name}` : `container ${containerID}`;
    return `${who} ${endedBy === null ? "holds" : `until ${endedBy}`}`;
  });
}

export interface Namespaces {
  /** Makes a network namespace; its path. */
  add(): Promise<string>;
  remove(path: string): Promise<void>;
}

async function makeNamespaces(
  skip: (note: string) => never,
  onCleanup: (act: () => Promise<void>) => void,
): Promise<Namespaces> {
  const reason = skippedFor(process.getuid?.() === 0 ? null : "needs root: it makes network namespaces");
  if (reason !== null) skip(reason);
  const made = new Set<string>();
  const remove = async (path: string) => {
    made.delete(path);
    expect(await run("ip", ["netns", "delete", nameOf(path)])).toMatchObject({ code: 0 });
  };
  onCleanup(async () => {
    for (const path of made) await remove(path);
  });
  const add = async () => {
    // A directory's random name, so that runs beside each other never meet.
    const path = `/run/netns/holdfast-${Math.random().toString(36).slice(2, 10)}-${process.pid}`;
    expect(await run("ip", ["netns", "add", nameOf(path)])).toMatchObject({ code: 0 });
    made.add(path);
    return path;
  };
  return { add, remove };
}

function nameOf(path: string): string {
  return path.slice("/run/netns/".length);
}

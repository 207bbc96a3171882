import type { CniReply } from "../../../cni/route.ts";
import type { CniError, CniWireRequest } from "../../../cni-shim/wire.ts";
import { sleep, within } from "../../../platform/time.ts";
import type { ProcessClock } from "./clocks.ts";
import type { DaemonProcess } from "./daemon-process.ts";
import type { Disk } from "./disk.ts";

/** As environment.c has them, ms. */
const PATIENT_MS = 60_000;
const HASTY_MS = 5_000;
const ABSENT_MS = 8_000;
const ABSENT_ADD_MS = 30_000;
/** As exchange.c has it, ms. */
const ASK_AGAIN_MS = 50;
/** One way between the plugin binary and the daemon, ms. */
const LATENCY_MS = 0.2;

export interface CniCall {
  readonly command: CniWireRequest["command"];
  readonly containerId: string;
  readonly netns: string;
  readonly ifname: string;
  readonly args: string;
  readonly config: string;
}

/** What the runtime gets of it. */
export type CniOutcome =
  | { readonly ok: true; readonly result: object | null }
  | { readonly ok: false; readonly error: CniError };

/** What a plugin binary sees of its machine. */
export interface PluginSurroundings {
  readonly clock: ProcessClock;
  bootId(): string;
  readonly disk: Disk;
  bootUs(): number;
  namespaceIdAt(path: string): string;
  /** The daemon that listens; null: none does. */
  daemon(): DaemonProcess | null;
  /** Calls `then` once, when a daemon begins to listen. Returns how to give up. */
  whenListening(then: () => void): () => void;
  /** It has put a request into the spool. */
  spooled(wire: CniWireRequest): void;
}

/**
 * One execution of the plugin binary; see cni-shim/. `slowMs`: before it asks, but after it began. A machine that loses
 * power never sees the end of it.
 */
export async function execute(around: PluginSurroundings, call: CniCall, slowMs = 0): Promise<CniOutcome> {
  const wire: CniWireRequest = {
    ...call,
    netnsId: call.netns === "" ? "" : around.namespaceIdAt(call.netns),
    bootId: around.bootId(),
    bootUs: around.bootUs(),
  };
  if (slowMs > 0) await sleep(around.clock, slowMs);
  const isDel = call.command === "DEL";
  const reply = await ask(around, wire);
  if (isDel) {
    if (typeof reply === "string" || reply.status === 503) spool(around, wire);
    return { ok: true, result: null };
  }
  if (typeof reply === "string") {
    const code = call.command === "STATUS" ? 50 : 11;
    return { ok: false, error: { cniVersion: "1.1.0", code, msg: reply, details: "" } };
  }
  if (reply.status === 200) return { ok: true, result: reply.body ?? null };
  const error = reply.body as CniError;
  // Each process has another directory, and the same history.
  return { ok: false, error: { ...error, msg: error.msg.replaceAll(around.disk.root, "") } };
}

/** A text: why there is no answer. */
async function ask(around: PluginSurroundings, wire: CniWireRequest): Promise<CniReply | string> {
  const { clock } = around;
  const isHasty = wire.command === "DEL" || wire.command === "STATUS";
  const absentMs = isHasty ? 0 : wire.command === "ADD" ? ABSENT_ADD_MS : ABSENT_MS;
  const deadlineMs = clock.monotonicMs() + (isHasty ? HASTY_MS : PATIENT_MS);
  const late = () => new Late("the daemon did not answer in time");
  try {
    for (;;) {
      const daemon = around.daemon() ?? (await within(clock, untilListening(around, absentMs), deadlineMs, late));
      if (daemon === null) return "the daemon is not reachable";
      const reply = await within(clock, daemon.answer(wire, LATENCY_MS), deadlineMs, late);
      const nextMay = !isHasty && clock.monotonicMs() + ASK_AGAIN_MS < deadlineMs;
      if ((reply !== null && !reply.isLeft) || !nextMay) return reply ?? "the daemon ended while it answered";
      await sleep(clock, ASK_AGAIN_MS);
    }
  } catch (error) {
    if (error instanceof Late) return error.message;
    throw error;
  }
}

class Late extends Error {}

/** null: none begins to listen within that time. */
function untilListening(around: PluginSurroundings, waitMs: number): Promise<DaemonProcess | null> {
  if (waitMs === 0) return Promise.resolve(null);
  return new Promise((resolve) => {
    const giveUp = around.whenListening(() => {
      absent.cancel();
      resolve(around.daemon());
    });
    const absent = around.clock.timer(waitMs, () => {
      giveUp();
      resolve(null);
    });
  });
}

function spool(around: PluginSurroundings, wire: CniWireRequest): void {
  around.disk.spool(wire.bootUs, 1, JSON.stringify(wire));
  around.spooled(wire);
}

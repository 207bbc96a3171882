import type { CniReply } from "../../../cni/route.ts";
import type { CniError, CniWireRequest } from "../../../cni-shim/wire.ts";
import { sleep } from "../../../platform/time.ts";
import type { ProcessClock } from "./clocks.ts";
import type { DaemonProcess } from "./daemon-process.ts";
import type { Disk } from "./disk.ts";

/** As environment.c has them, ms. */
const PATIENT_MS = 60_000;
const HASTY_MS = 5_000;
const ABSENT_MS = 8_000;
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

/** One execution of the plugin binary; see cni-shim/. `slowMs`: before it asks, but after it began. A machine that loses power never sees the end of it. */
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
function ask(around: PluginSurroundings, wire: CniWireRequest): Promise<CniReply | string> {
  const isHasty = wire.command === "DEL" || wire.command === "STATUS";
  return new Promise((resolve) => {
    let isOver = false;
    const over = (outcome: CniReply | string) => {
      if (isOver) return;
      isOver = true;
      deadline.cancel();
      resolve(outcome);
    };
    const deadline = around.clock.timer(isHasty ? HASTY_MS : PATIENT_MS, () => {
      over("the daemon did not answer in time");
    });
    const send = (daemon: DaemonProcess) => {
      void daemon.answer(wire, LATENCY_MS).then((reply) => over(reply ?? "the daemon broke the connection"));
    };
    const daemon = around.daemon();
    if (daemon !== null) {
      send(daemon);
      return;
    }
    if (isHasty) {
      over("the daemon is not reachable");
      return;
    }
    const giveUp = around.whenListening(() => {
      absent.cancel();
      const there = around.daemon();
      if (there !== null && !isOver) send(there);
      else over("the daemon is not reachable");
    });
    const absent = around.clock.timer(ABSENT_MS, () => {
      giveUp();
      over("the daemon is not reachable");
    });
  });
}

function spool(around: PluginSurroundings, wire: CniWireRequest): void {
  around.disk.spool(wire.bootUs, 1, JSON.stringify(wire));
  around.spooled(wire);
}

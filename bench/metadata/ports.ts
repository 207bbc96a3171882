import { until } from "../../test/harness/wait.ts";
import { atMost, type Line, type Measurement, number } from "../line.ts";
import { median, quantile } from "../statistics.ts";
import { memoryBytesOf } from "../workbench.ts";
import { askAsGuests, PORT } from "./ask.ts";
import { BenchNode } from "./node.ts";

const PORTS = 900;
/** Attached one after the other to the full node. */
const MORE = 20;
const PATH = "/openstack";

interface Full {
  /** One ADD each, which waits for its own port. */
  readonly admitMs: readonly number[];
  /** From exec to all guests served, nothing of an earlier run there. */
  readonly startMs: number;
  /** The same after a SIGKILL, with everything of the earlier run there. */
  readonly adoptMs: number;
  readonly bytes: number;
  readonly notAnswered: number;
}

/** A node with hundreds of guests: what one more costs, and a start. */
async function fill(node: BenchNode): Promise<Full> {
  const config = node.network("full", "10.60.0.0/16");
  const { guests } = await node.many(PORTS, config);
  await until(() => node.isReady(), "all ports", 300_000);
  const admitMs: number[] = [];
  for (let count = 0; count < MORE; count += 1) {
    const more = await node.many(1, config);
    admitMs.push(...more.addMs);
    guests.push(...more.guests);
  }
  const startedMs = async (signal: NodeJS.Signals) => {
    await node.endNet(signal);
    const fromMs = performance.now();
    await node.startNet();
    await until(() => node.isReady(), "all ports after a start", 300_000);
    return performance.now() - fromMs;
  };
  const [startMs, adoptMs] = [await startedMs("SIGTERM"), await startedMs("SIGKILL")];
  const asked = await askAsGuests("new", 1, { ports: [PORT], paths: [PATH], guests });
  const notAnswered = asked.filter(({ status }) => status !== 200).length;
  return { admitMs, startMs, adoptMs, notAnswered, bytes: memoryBytesOf(node.netPid, "VmHWM") };
}

/** `holdfast metadata-net` with 900 guests on the node. Needs root. */
export const metadataPorts: Measurement = async (): Promise<Line[]> => {
  const ours = await BenchNode.with(fill);
  const one = `an ADD that waits for its port, after ${number(PORTS)}; ${MORE} times, p99 ${number(quantile(ours.admitMs, 0.99))} ms`;
  return [
    atMost(ours.notAnswered, 0, "guests", {
      what: `${number(PORTS + MORE)} guests of a node: not answered`,
      against: "one request each, all at once",
    }),
    atMost(median(ours.admitMs), 150, "ms", { what: "one more guest is admitted, median", against: one }),
    atMost(ours.startMs / 1_000, 3, "s", {
      what: `start of metadata-net with ${number(PORTS + MORE)} attachments, until all are served`,
      against: `nothing there before; after a SIGKILL ${number(ours.adoptMs / 1_000)} s`,
    }),
    atMost(ours.bytes / 1_000_000, 60, "MB", {
      what: "memory of metadata-net with them",
      against: "the most there ever was, resident set of the process",
    }),
  ];
};

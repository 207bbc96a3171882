import type { Release } from "../../test/harness/daemon.ts";
import { releaseOf } from "../../test/harness/release.ts";
import { type Line, number, told } from "../line.ts";
import { BenchNode } from "./node.ts";

/** The last commit with a listener for each network, on a port of its bridge; it is built for the comparison. */
const COMMIT = "5de71b4";

/** What was built here, and the release before it. */
export interface BothNodes {
  readonly now: BenchNode;
  /** null: this clone has not its commit. */
  readonly before: BenchNode | null;
}

/** Runs work with a node of each release, beside each other. Nothing of them is left. */
export async function withBoth<T>(work: (nodes: BothNodes) => Promise<T>): Promise<T> {
  return onNode(undefined, async (now) => {
    const release = await releaseOf(COMMIT);
    if (release === null) return work({ now, before: null });
    return onNode(release, (before) => work({ now, before }));
  });
}

/** Runs the same with one after the other, for what fills the machine. */
export async function onEach<T>(
  work: (node: BenchNode) => Promise<T>,
): Promise<{ readonly now: T; readonly before: T | null }> {
  const release = await releaseOf(COMMIT);
  const before = release && (await onNode(release, work));
  return { now: await onNode(undefined, work), before };
}

async function onNode<T>(release: Release | undefined, work: (node: BenchNode) => Promise<T>): Promise<T> {
  const node = await BenchNode.start(release);
  try {
    return await work(node);
  } finally {
    await node.stop();
  }
}

/** The value of this release as a ratio of the one before. */
export function beside(what: string, now: number, before: number | null, unit: string): Line {
  return told(before === null ? "not measured" : `${number(now / before)} ×`, {
    what: `${what}, beside the listener before`,
    against:
      before === null
        ? `this clone has not commit ${COMMIT}`
        : `commit ${COMMIT} in the same run: ${number(before)} ${unit}, now ${number(now)} ${unit}`,
  });
}

import { readFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * In metadata-net's run directory, one name a line: the bridges whose guests are kept from the node's own
 * 169.254.169.254 in this boot, by rules that were seen in place. The daemon reads it, also while metadata-net is away.
 */
export const CLOSED_BRIDGES = "closed-bridges";

export function namesIn(text: string): readonly string[] {
  return text.split("\n").filter((name) => name !== "");
}

/** Of a run directory; none where nothing was ever closed in this boot. */
export async function readClosedBridges(runDir: string): Promise<ReadonlySet<string>> {
  try {
    return new Set(namesIn(await readFile(join(runDir, CLOSED_BRIDGES), "utf8")));
  } catch {
    return new Set();
  }
}

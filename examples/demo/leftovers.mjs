// What the demo and its processes make outside of its own directory, found by name: everything of it has to go.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A line for each of what is still there. `list` runs a command, and resolves with its lines. */
export async function leftovers(directory, prefixes, list) {
  // As metadata-net names what it makes (guests/kernel/names.ts).
  const tag = createHash("sha256").update(join(directory, "net")).digest("hex").slice(0, 4);
  const names = [...prefixes, `hfm${tag}`, `holdfast-md-${tag}`, `holdfast_metadata_${tag}`];
  const isOurs = (line) => names.some((name) => line.includes(name));
  return [
    ...processesOf(directory).map((line) => `process ${line}`),
    ...(await list("ip", "netns", "list")).filter(isOurs).map((line) => `network namespace ${line}`),
    ...(await list("ip", "-brief", "link")).filter(isOurs).map((line) => `link ${line}`),
    ...(await list("nft", "list", "tables")).filter(isOurs).map((line) => `nft ${line}`),
    ...(existsSync(directory) ? [`directory ${directory}`] : []),
  ];
}

/** With the directory in their arguments: the daemon, the metadata processes and their haproxy. */
function processesOf(directory) {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => `${pid} ${commandOf(pid)}`)
    .filter((line) => line.includes(directory));
}

function commandOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
  } catch {
    return "";
  }
}

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { GuestPlace } from "../../test/harness/metadata/guest.ts";
import type { BenchNode } from "./node.ts";

const run = promisify(execFile);
const GUEST_CLIENT = "build/bench/guest-client";

/** Of what is asked in every measurement. */
export const PORT = 80;
/** Of haproxy alone, in the listener's namespace. */
export const STATIC_PORT = 8081;

export interface Asked {
  readonly port: number;
  readonly us: number;
  /** 0: not answered. */
  readonly status: number;
}

/**
 * `count` requests of each guest, one after the other, all guests at once; ports and paths are gone through in turn.
 */
export async function askAsGuests(
  how: "new" | "keep",
  count: number,
  what: {
    readonly ports: readonly number[];
    readonly paths: readonly string[];
    readonly guests: readonly GuestPlace[];
  },
): Promise<Asked[]> {
  const netns = what.guests.map(({ namespace }) => `/run/netns/${namespace}`);
  const args = [how, String(count), what.ports.join(), what.paths.join(), ...netns];
  const { stdout } = await run(GUEST_CLIENT, args, { maxBuffer: 1 << 26 });
  return stdout
    .trim()
    .split("\n")
    .map((line) => {
      const [port = 0, us = 0, status = 0] = line.split(" ").map(Number);
      return { port, us, status };
    });
}

/** haproxy alone with an answer of the same size, in the listener's own namespace: the same way there and back. */
export async function startStaticServer(node: BenchNode, body: string): Promise<() => Promise<void>> {
  const file = join(node.daemon.directory, "static.cfg");
  const answer = join(node.daemon.directory, "static.json");
  writeFileSync(answer, body);
  writeFileSync(
    file,
    `global
  maxconn 4096
defaults
  mode http
  timeout client 30s
  timeout http-request 5s
frontend static
  bind 0.0.0.0:${STATIC_PORT} namespace ${node.listener}
  http-request return status 200 content-type application/json file ${answer}
`,
  );
  const child = spawn("haproxy", ["-db", "-f", file], { stdio: "inherit" });
  return async () => {
    if (child.exitCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await exited;
  };
}

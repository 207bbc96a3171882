// Two built source trees by turns on this machine, the first one also against itself:
//   node bench/compare.mjs OLD NEW [PAIRS]
// ADDs through the plugin, durable ADDs with 64 in flight, and a start after SIGKILL with 100,000 allocations. Prints
// the median of the ratios of all pairs: what OLD shows against itself is what the machine's noise can be. `make bench`
// compiles the C programs.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const [older, newer, pairs = "10"] = process.argv.slice(2);
if (newer === undefined) {
  console.error("usage: node bench/compare.mjs OLD NEW [PAIRS]; both are source trees in which make build was run");
  process.exit(2);
}
const PAIRS = Number(pairs);
const IN_FLIGHT = 64;
const LOAD_ADDS = 10_000;
const PLUGIN_ADDS = 100;
const FILLED = 100_000;
const CONFIG = JSON.stringify({
  cniVersion: "1.0.0",
  name: "bench",
  type: "bridge",
  ipam: { type: "holdfast-ipam", subnet: "10.0.0.0/8" },
});

class Side {
  constructor(name, tree) {
    this.name = name;
    this.tree = resolve(tree);
    this.directory = mkdtempSync("/var/tmp/holdfast-compare-");
    this.socket = join(this.directory, "s.sock");
    this.loads = 0;
    this.netns = join(this.directory, "netns");
    writeFileSync(this.netns, "");
    writeFileSync(join(this.directory, "plugin.conf"), CONFIG);
    writeFileSync(join(this.directory, "request"), requestOf(this.netns));
  }

  /** ms from exec to ready. */
  async start() {
    const state = join(this.directory, "state");
    const arguments_ = ["daemon", "--state", state, "--socket", this.socket, "--identity-socket", "off"];
    const node = join(this.tree, "node_modules/.bin/node");
    const fromMs = performance.now();
    this.daemon = spawn(node, [join(this.tree, "dist/bin/holdfast"), ...arguments_], { stdio: "ignore" });
    while (!(await this.isReady())) await sleep(2);
    return performance.now() - fromMs;
  }

  isReady() {
    return new Promise((answer) => {
      const sent = request({ socketPath: this.socket, path: "/readyz" }, (response) => {
        response.resume().on("end", () => answer(response.statusCode === 200));
      });
      sent.on("error", () => answer(false)).end();
    });
  }

  async end(signal) {
    const ended = once(this.daemon, "exit");
    this.daemon.kill(signal);
    await ended;
  }

  /** ADDs a second. */
  load(count = LOAD_ADDS) {
    this.loads += 1;
    const arguments_ = [this.socket, join(this.directory, "request"), count, IN_FLIGHT, this.loads].map(String);
    return count / Number(execFileSync("build/bench/load-client", arguments_).toString().split(" ")[0]);
  }

  /** Median of an ADD, ms. */
  plugin() {
    this.loads += 1;
    const prefix = `${process.pid}${this.loads}`.padEnd(16, "e");
    const plugin = join(this.tree, "dist/bin/holdfast-ipam");
    const arguments_ = [PLUGIN_ADDS, 1, 1, prefix, "undo", "--", join(this.directory, "plugin.conf"), plugin].map(
      String,
    );
    const env = {
      ...process.env,
      HOLDFAST_SOCKET: this.socket,
      HOLDFAST_SPOOL: join(this.directory, "spool"),
      CNI_NETNS: this.netns,
      CNI_IFNAME: "eth0",
      CNI_PATH: "/opt/cni/bin",
    };
    const lines = execFileSync("build/bench/exec-driver", arguments_, { env, maxBuffer: 1 << 26 }).toString();
    return median(
      lines
        .trim()
        .split("\n")
        .map((line) => Number(line.split(" ")[1]) / 1_000),
    );
  }
}

function requestOf(netns) {
  const { dev, ino } = statSync(netns);
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  const what = {
    command: "ADD",
    containerId: "@".repeat(64),
    netns,
    netnsId: `${dev}:${ino}`,
    ifname: "eth0",
    args: "",
  };
  const body = JSON.stringify({
    ...what,
    bootId,
    bootUs: Math.round(performance.now() * 1_000),
    config: CONFIG,
  });
  const head = "POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Type: application/json\r\n";
  return `${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function median(values) {
  const sorted = values.toSorted((one, other) => one - other);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/** Each side measured in each round, in an order that turns; prints how each compares with the first one. */
async function compare(what, unit, measure, isRate = false) {
  const values = new Map(sides.map((side) => [side, []]));
  for (let round = 0; round < PAIRS; round += 1)
    for (let turn = 0; turn < sides.length; turn += 1) {
      const side = sides[(round + turn) % sides.length];
      values.get(side).push(await measure(side));
    }
  const [first, ...others] = sides;
  console.log(`${what}: ${first.name} ${median(values.get(first)).toFixed(2)} ${unit}`);
  for (const side of others) {
    const ratios = values
      .get(side)
      .map((value, at) => (isRate ? values.get(first)[at] / value : value / values.get(first)[at]));
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((one) => one.toFixed(3));
    console.log(
      `  ${side.name}: ${median(ratios).toFixed(3)} × the time (${least} to ${most}), ${median(values.get(side)).toFixed(2)} ${unit}`,
    );
  }
}

for (const file of ["build/bench/load-client", "build/bench/exec-driver"])
  if (!existsSync(file)) throw new Error(`${file} is missing: node bench/run.mjs --only allocator compiles it`);
const sides = [new Side("old", older), new Side("old again", older), new Side("new", newer)];
try {
  for (const side of sides) {
    await side.start();
    side.load();
  }
  console.log(`${PAIRS} pairs`);
  await compare(`ADD through the plugin, median of ${PLUGIN_ADDS}`, "ms", (side) => side.plugin());
  await compare(`durable ADDs, ${IN_FLIGHT} in flight, ${LOAD_ADDS} each`, "/s", (side) => side.load(), true);
  for (const side of sides) {
    side.load(FILLED - LOAD_ADDS * (1 + PAIRS) > 0 ? FILLED - LOAD_ADDS * (1 + PAIRS) : 1);
    await side.end("SIGKILL");
  }
  await compare(`start after SIGKILL with ${FILLED} allocations or more`, "ms", async (side) => {
    const ms = await side.start();
    await side.end("SIGKILL");
    return ms;
  });
} finally {
  for (const side of sides) {
    if (side.daemon?.exitCode === null && side.daemon.signalCode === null) await side.end("SIGKILL");
    rmSync(side.directory, { recursive: true, force: true });
  }
}

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { until } from "../../test/harness/wait.ts";
import { BOOT } from "../../test/metadata-node/boot.ts";
import { type AttachedGuest, MetadataNode } from "../../test/metadata-node/metadata-node.ts";
import { atMost, type Measurement, number, type told } from "../line.ts";
import { median, quantile } from "../statistics.ts";

const run = promisify(execFile);
const GUEST_CLIENT = "build/bench/guest-client";
const PORT = 80;
const STATIC_PORT = 8081;
const WARM_UP = 2_000;
const PAIRS = 4_000;
const VMS = 200;
/** Attached at once while the network is filled. */
const ADDS_IN_FLIGHT = 4;

interface Asked {
  readonly port: number;
  readonly us: number;
  readonly status: number;
}

async function guestClient(
  how: "new" | "keep",
  count: number,
  {
    ports,
    paths,
    guests,
  }: { ports: readonly number[]; paths: readonly string[]; guests: readonly AttachedGuest[] },
): Promise<Asked[]> {
  const netns = guests.map(({ namespace }) => `/run/netns/${namespace}`);
  const args = [how, String(count), ports.join(), paths.join(), ...netns];
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
async function staticServer(node: MetadataNode, body: string): Promise<() => Promise<void>> {
  const ours = readFileSync(join(node.metadata.runDir, "haproxy.cfg"), "utf8");
  const namespace = /namespace (\S+)/.exec(ours)?.[1];
  const file = join(node.daemon.folder, "static.cfg");
  const answer = join(node.daemon.folder, "static.json");
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
  bind 169.254.169.254:${STATIC_PORT} namespace ${namespace}
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

/** One guest asks in turns our server and haproxy alone. */
async function ratios(node: MetadataNode): Promise<ReturnType<typeof told>[]> {
  const guest = await node.vm("vm1", node.network("ratio"), "11111111-1111-4111-8111-111111111111");
  await node.untilServed(guest);
  const path = "/openstack/latest/meta_data.json";
  const { body } = await guest.ask(path);
  const stop = await staticServer(node, body);
  try {
    await until(
      async () => (await guest.ask(`http://169.254.169.254:${STATIC_PORT}/`)).status === 200,
      "haproxy alone",
    );
    const both = { ports: [PORT, STATIC_PORT], paths: [path], guests: [guest] };
    await guestClient("new", WARM_UP, both);
    const fresh = await guestClient("new", 2 * PAIRS, both);
    const kept = await guestClient("keep", 2 * PAIRS, both);
    const failed = [...fresh, ...kept].filter(({ status }) => status !== 200).length;
    if (failed > 0) throw new Error(`${failed} requests were not answered with 200`);
    const ms = (all: readonly Asked[], port: number) =>
      all.filter((one) => one.port === port).map(({ us }) => us / 1_000);
    const [ours, theirs] = [ms(fresh, PORT), ms(fresh, STATIC_PORT)];
    const against = `haproxy alone with the same bytes, in turns; ${number(PAIRS)} each after ${number(WARM_UP)}`;
    return [
      atMost(median(ours) / median(theirs), 3, "×", {
        what: "metadata GET on a new connection through the bridge, median",
        against,
        beside: `${number(median(ours))} ms, haproxy alone ${number(median(theirs))} ms`,
      }),
      atMost(quantile(ours, 0.99), 10, "ms", {
        what: "the same, p99",
        against: `haproxy alone ${number(quantile(theirs, 0.99))} ms`,
      }),
      atMost(median(ms(kept, PORT)), 0.3, "ms", {
        what: "metadata GET on a connection kept alive, median",
        against: `haproxy alone ${number(median(ms(kept, STATIC_PORT)))} ms, in turns`,
      }),
    ];
  } finally {
    await stop();
    await node.end(guest);
  }
}

/** Every VM of a node boots at the same instant. */
async function boots(node: MetadataNode): Promise<ReturnType<typeof told>[]> {
  const network = node.network("boots", { subnets: "10.40.0.0/20" });
  const names = Array.from({ length: VMS }, (_, n) => `vm${n}`);
  const guests: AttachedGuest[] = [];
  const rest = names.entries();
  await Promise.all(
    Array.from({ length: ADDS_IN_FLIGHT }, async () => {
      for (const [n, name] of rest) {
        guests.push(await node.vm(name, network, `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`));
      }
    }),
  );
  await Promise.all([guests[0], guests.at(-1)].map((guest) => guest && node.untilServed(guest)));
  const startMs = performance.now();
  const asked = await guestClient("new", BOOT.length, { ports: [PORT], paths: BOOT, guests });
  const allMs = performance.now() - startMs;
  const answered = asked.filter(({ status }) => status === 200 || status === 404).length;
  const slowestMs = Math.max(...asked.map(({ us }) => us)) / 1_000;
  const ms = asked.map(({ us }) => us / 1_000);
  return [
    atMost(asked.length - answered, 0, "requests", {
      what: `${VMS} VMs boot at once, ${BOOT.length} requests each: not answered`,
      against: `${number(asked.length)} requests in ${number(allMs)} ms`,
    }),
    atMost(slowestMs, 1_000, "ms", {
      what: "the slowest of them",
      against: `median ${number(median(ms))} ms, p99 ${number(quantile(ms, 0.99))} ms`,
    }),
  ];
}

/** Guests in namespaces behind the real bridge plugin, haproxy and the server. Needs root. */
export const metadataGuests: Measurement = async () => {
  const node = await MetadataNode.start();
  try {
    return [...(await ratios(node)), ...(await boots(node))];
  } finally {
    await node.stop();
  }
};

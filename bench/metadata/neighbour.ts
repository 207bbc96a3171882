import { readFileSync } from "node:fs";
import { run } from "../../test/harness/daemon.ts";
import type { NamespaceGuest } from "../../test/harness/metadata/guest.ts";
import { pause } from "../../test/harness/wait.ts";
import { atMost, type Measurement, number } from "../line.ts";
import { quantile } from "../statistics.ts";
import { type Asked, askAsGuests, PORT } from "./ask.ts";
import { BenchNode } from "./node.ts";

const SECONDS = 20;
/** Somebody on the node flushes our rules so often meanwhile: the neighbour waits for that. */
const FLUSHES = 20;
/** In each batch of the victim. */
const REQUESTS = 50;
const PATH = "/openstack/latest/meta_data.json";
const SCRIPT = "bench/metadata/neighbour.py";
/** Of the answerer of ARP: a guest sees it. */
const SERVICE_MAC = "02:6d:64:00:00:01";

interface Outcome {
  /** Answers to the neighbour with another identity than its own. */
  readonly stolen: number;
  readonly own: number;
  readonly sent: number;
  readonly victim: readonly Asked[];
}

/**
 * A guest floods, spoofs MAC and address of its neighbour and of the service, claims both addresses, and waits for a
 * flush.
 */
async function attack(node: BenchNode): Promise<Outcome> {
  const network = node.network("hostile", "10.70.0.0/24");
  const [victim, thief] = [await node.vm("victim", network), await node.vm("thief", network)];
  for (const guest of [victim, thief]) await node.untilServed(guest);
  const own = uuidOf((await thief.ask(PATH)).body);
  // It has its neighbour's address too.
  await run("ip", ["-n", thief.namespace, "address", "add", `${victim.address}/32`, "dev", "eth0"]);
  const spoof = [thief.address, thief.mac, victim.address, victim.mac, SERVICE_MAC];
  const attacking = thief.python(readFileSync(SCRIPT, "utf8"), [String(SECONDS), ...spoof]);
  let over = false;
  const ends = attacking.finally(() => {
    over = true;
  });
  const [asked] = await Promise.all([askUntil(victim, () => over), flush(node, () => over), ends]);
  const { code, stdout, stderr } = await attacking;
  if (code !== 0) throw new Error(`the neighbour: ${stderr}`);
  const { answers, sent } = JSON.parse(stdout) as { answers: Record<string, number>; sent: number };
  const others = Object.entries(answers).filter(([uuid]) => uuid !== own);
  const stolen = others.reduce((total, [, count]) => total + count, 0);
  return { stolen, own: answers[own] ?? 0, sent, victim: asked };
}

async function askUntil(victim: NamespaceGuest, isOver: () => boolean): Promise<Asked[]> {
  const asked: Asked[] = [];
  const what = { ports: [PORT], paths: [PATH], guests: [victim] };
  while (!isOver()) asked.push(...(await askAsGuests("new", REQUESTS, what)));
  return asked;
}

/** Only our own tables: this is the machine's own namespace. */
async function flush(node: BenchNode, isOver: () => boolean): Promise<void> {
  for (let count = 0; count < FLUSHES && !isOver(); count += 1) {
    await pause((SECONDS * 1_000) / (FLUSHES + 1));
    const { stdout } = await run("nft", ["list", "tables"]);
    for (const [, family, name] of stdout.matchAll(/^table (\w+) (holdfast_metadata_\w+)$/gm))
      if (name === node.table) await run("nft", ["delete", "table", family as string, name as string]);
  }
}

function uuidOf(body: string): string {
  return (JSON.parse(body) as { uuid: string }).uuid;
}

/** What a neighbour on the same bridge can do to a guest. Needs root. */
export const metadataNeighbour: Measurement = async () => {
  const now = await BenchNode.with(attack);
  const lost = now.victim.filter(({ status }) => status !== 200).length;
  const ms = now.victim.map(({ us }) => us / 1_000);
  return [
    atMost(now.stolen, 0, "answers", {
      what: "a neighbour that floods, spoofs and waits for a flush: answers with another identity",
      against: `${number(now.own)} with its own; ${number(now.sent)} frames in ${SECONDS} s, ${FLUSHES} flushes`,
    }),
    atMost(lost, 0, "requests", {
      what: "of the victim's requests meanwhile: not answered",
      against: `${number(now.victim.length)} requests, p99 ${number(quantile(ms, 0.99))} ms`,
    }),
  ];
};

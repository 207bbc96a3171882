import { once } from "node:events";
import { rmSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { Agent, type AgentParts } from "../../guests/agent.ts";
import type { WantedPorts } from "../../guests/ports/wire.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";

interface Played {
  readonly agent: Agent;
  /** Versions that were carried out, and looks. */
  readonly calls: readonly string[];
  /** Problems of the node as they were reported. */
  readonly problems: readonly (string | null)[];
  /** A look at everything is under way. */
  looking(): boolean;
  want(version: number): void;
}

/** An agent whose look at everything does not end unless somebody hurries it. */
async function play(isSearchDue: boolean, failure: () => string | null = () => null): Promise<Played> {
  const directory = newDirectory();
  const socket = join(directory, "d.sock");
  let version = 1;
  const problems: (string | null)[] = [];
  const server = createServer((request, answer) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk;
    });
    request.on("end", () => {
      const { applied, problem } = JSON.parse(body) as { applied: string | null; problem: string | null };
      problems.push(problem);
      const send = () => answer.end(JSON.stringify({ version: String(version), ports: [], ovnNetworks: [] }));
      const timer = setInterval(() => {
        if (applied === String(version)) return;
        clearInterval(timer);
        send();
      }, 5);
      answer.on("close", () => clearInterval(timer));
    });
  });
  server.listen(socket);
  await once(server, "listening");
  const calls: string[] = [];
  let looking = false;
  const carryOut = async (wanted: WantedPorts, again: boolean, hurry: AbortSignal) => {
    const look = again && calls.length > 0;
    const isNews = wanted.version !== calls.at(-1);
    calls.push(look ? "look" : isNews ? wanted.version : "search");
    const why = failure();
    if (why !== null) throw new Error(why);
    looking = look && !hurry.aborted;
    // A look that nobody hurries does not end.
    while (look && !hurry.aborted) await pause(5);
    looking = false;
  };
  const ports = { carryOut, isSearchDue, failed: [], problem: null, count: 0 };
  const parts = { ports, haproxy: { died: false }, settled: async () => {} };
  const log = pino({ level: "silent" });
  const agent = new Agent({ socket, log, clock: systemClock, ...parts } as unknown as AgentParts);
  const done = agent.run();
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    version += 1;
    agent.stop();
    await done;
    rmSync(directory, { recursive: true, force: true });
  });
  await until(() => calls.length === 1, "the first state");
  return {
    agent,
    calls,
    problems,
    looking: () => looking,
    want: (next) => {
      version = next;
    },
  };
}

test("a change does not wait for a full check, which continues afterwards", async () => {
  const { agent, calls, looking, want } = await play(false);
  agent.checkSoon();
  await until(looking, "a look at everything");
  want(2);
  await until(() => calls.includes("2"), "the news to be carried out");
  expect(calls).toEqual(["1", "look", "2"]);
  await until(looking, "the look that was broken off", 10_000);
  want(3);
  await until(() => calls.includes("3"), "the news after that");
});

test("a port that was not found is searched for again, without a full check", async () => {
  const { calls } = await play(true);
  await until(() => calls.length >= 2, "another search", 10_000);
  expect(calls.slice(0, 2)).toEqual(["1", "search"]);
});

test("a change that cannot be applied is reported until it is applied", async () => {
  let why: string | null = "nft has failed";
  const { agent, problems, want } = await play(false, () => why);
  await until(() => problems.at(-1) === why, "the report");
  expect(agent.notReady()).toBe("no guest is served: nft has failed");
  why = null;
  want(2);
  await until(() => problems.at(-1) === null, "the report that it is carried out");
  expect(agent.notReady()).toBeNull();
});

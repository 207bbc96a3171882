import { readdirSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { DESCRIPTORS_KEPT } from "../../platform/listeners/descriptors.ts";
import { LISTENERS, type ListenerName } from "../../platform/listeners/listeners.ts";
import { ConnectionLoad } from "../harness/connection-load.ts";
import { network, TestDaemon } from "../harness/daemon.ts";
import { freePorts } from "../harness/kube-process.ts";
import { ListenerProcess } from "../harness/listener-process.ts";

const CONNECTIONS = 2_000;
const QUESTIONS = 50;
const ADDS = 50;
/** What the kubelet waits for a probe in deploy/. */
const ANSWER_MS_MAX = 5_000;

type Where = { readonly port: number; readonly host: string } | { readonly socketPath: string };

const ending: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

async function load(where: Where, kind: "idle" | "slow"): Promise<void> {
  const options = "port" in where ? where : { path: where.socketPath };
  const started = await ConnectionLoad.start({ where: options, kind, count: CONNECTIONS });
  ending.push(() => started.stop());
}

/** What each of the questions, one after another on connections of their own, is answered: a status, or an error. */
async function ask(
  where: Where,
  paths: readonly string[],
): Promise<readonly (number | string | undefined)[]> {
  const answers = [];
  for (let index = 0; index < QUESTIONS; index += 1)
    answers.push(await question(where, paths[index % paths.length] as string));
  return answers;
}

function question(where: Where, path: string): Promise<number | string | undefined> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const sent = request({ ...where, path, agent: false, signal }, (answer) => {
      answer.on("error", (error) => resolve(error.message));
      answer.on("end", () => resolve(answer.statusCode)).resume();
    });
    sent.on("error", (error) => resolve(error.message)).end();
  });
}

const NAMES = (Object.keys(LISTENERS) as (keyof typeof LISTENERS)[]).filter((name) => name !== "haproxy");
const ALL_ANSWERED = Array.from({ length: QUESTIONS }, () => 200);

describe.each(NAMES)("the server of %s", (name: ListenerName) => {
  test.each(["idle", "slow"] as const)("answers whoever asks beside 2,000 %s connections", async (kind) => {
    const server = await ListenerProcess.start(name);
    ending.push(() => server.stop());
    const where = { port: server.port, host: "127.0.0.1" };
    await load(where, kind);
    expect(await ask(where, ["/"])).toEqual(ALL_ANSWERED);
    const open = readdirSync(`/proc/${server.pid}/fd`).length;
    // One more while it is accepted.
    expect(open).toBeLessThan(LISTENERS[name].connectionsMax + DESCRIPTORS_KEPT);
  });
});

test.each(["metrics", "s.sock", "readonly.sock", "identity.sock"])(
  "a daemon with 1,024 descriptors serves probes, scrapes and ADDs beside 2,000 connections to %s",
  async (listener) => {
    const [port = 0] = await freePorts(1);
    const daemon = await TestDaemon.start({
      args: ["--metrics-address", `127.0.0.1:${port}`, "--read-group", String(process.getgid?.())],
      wrapper: ["sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"],
    });
    ending.push(() => daemon.stop());
    const metrics = { port, host: "127.0.0.1" };
    await load(listener === "metrics" ? metrics : { socketPath: join(daemon.directory, listener) }, "slow");
    expect(await ask(metrics, ["/readyz", "/metrics"])).toEqual(ALL_ANSWERED);
    for (let index = 0; index < ADDS; index += 1)
      expect(await daemon.cni("ADD", `c${index}`, { config: network("blue") })).toMatchObject({ code: 0 });
    expect(daemon.log).not.toContain("EMFILE");
    expect(await daemon.cli("check")).toMatchObject({ code: 0 });
  },
);

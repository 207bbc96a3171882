import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type pino from "pino";
import { makeLog } from "../../platform/log.ts";
import { SettingsError } from "../../platform/settings.ts";
import { systemClock } from "../../platform/time.ts";
import { Agent } from "./agent.ts";
import { Frontends } from "./haproxy/frontends.ts";
import { Haproxy } from "./haproxy/haproxy.ts";
import { Firewall } from "./kernel/firewall.ts";
import { FirewallWatch } from "./kernel/firewall-watch.ts";
import { namesOf } from "./kernel/names.ts";
import { PortMemory } from "./kernel/port-memory.ts";
import { Listeners, type Repair } from "./listeners.ts";
import { NetMetrics } from "./metrics.ts";
import { lockRunDir } from "./run-lock.ts";
import { buildNetServer } from "./server.ts";
import { loadNetSettings, type NetSettings } from "./settings.ts";

/** `holdfast metadata-net`: runs until SIGTERM or SIGINT, then takes away what it made. Resolves with the exit code. */
export async function runMetadataNet(flags: Readonly<Record<string, unknown>>): Promise<number> {
  const signal = new Promise<string>((resolve) => {
    for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => resolve(name));
  });
  try {
    const settings = loadNetSettings(flags, process.env);
    if (process.getuid?.() !== 0)
      throw new Error("it makes network namespaces, links and rules, for which it must be root");
    const log = makeLog(settings.logLevel);
    await serve(settings, log, signal);
    return 0;
  } catch (error) {
    process.stderr.write(`holdfast metadata-net: ${(error as Error).message}\n`);
    return error instanceof SettingsError ? 2 : 1;
  }
}

async function serve(settings: NetSettings, log: pino.Logger, signal: Promise<string>): Promise<void> {
  const { runDir } = settings;
  const names = namesOf(runDir);
  const unlock = lockRunDir(runDir);
  try {
    await serveAlone(settings, names, log, signal);
  } finally {
    unlock();
  }
}

async function serveAlone(
  settings: NetSettings,
  names: ReturnType<typeof namesOf>,
  log: pino.Logger,
  signal: Promise<string>,
): Promise<void> {
  const { runDir, metadataSocket, rateLimit, haproxyUser: user, haproxyGroup: group } = settings;
  const haproxy = new Haproxy(settings.haproxy, runDir, systemClock);
  const adopted = haproxy.adopt();
  if (adopted !== null) log.info({ pid: adopted }, "haproxy of an earlier run goes on");
  const metrics: NetMetrics = new NetMetrics({
    states: () => agent.states,
    connected: () => agent.connected,
    lostPorts: () => listeners.lostCount,
    statsSocket: join(runDir, "stats.sock"),
  });
  const firewall = new Firewall(names.table);
  const frontends = new Frontends(
    haproxy,
    { runDir, metadataSocket, rateLimit, runAs: { user, group } },
    (outcome) => metrics.reloaded(outcome),
  );
  const repaired = (repair: Repair) => {
    const named = repair.what === "link" ? `the link of network ${repair.network}` : "the table of rules";
    log.warn(repair, `${named} had been changed by somebody else; it is as it was`);
    metrics.repaired(repair.what);
  };
  const memory = new PortMemory(runDir);
  const listeners: Listeners = new Listeners({ names, memory, firewall, frontends, log, repaired });
  const agent: Agent = new Agent({ socket: settings.socket, listeners, haproxy, log });
  const watch = new FirewallWatch(() => {
    void firewall.restore().then(async (restored) => {
      if (restored) repaired({ what: "firewall" });
      if (restored || !(await firewall.isThere())) agent.lookSoon();
    });
  }, log);
  const server = await listen(settings, metrics, agent);
  watch.start();
  if (server !== null) log.info({ address: server.address() }, "metrics are served");
  log.info({ runDir, names: names.namespacePrefix, table: names.table }, "started");
  const done = agent.run();
  log.info({ signal: await signal }, "stopping; what was made is taken away");
  watch.stop();
  agent.stop();
  await done;
  await haproxy.stop();
  await listeners.carryOut({ version: "", networks: [] }, true);
  rmSync(join(runDir, "ports.json"), { force: true });
  server?.close();
  server?.closeAllConnections();
}

async function listen(settings: NetSettings, metrics: NetMetrics, agent: Agent) {
  if (settings.metricsAddress === null) return null;
  const server = buildNetServer(metrics, () => agent.notReady());
  server.listen(settings.metricsAddress);
  await once(server, "listening");
  return server;
}

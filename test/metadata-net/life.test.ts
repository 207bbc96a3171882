// @ts-nocheck
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { listenerNames } from "../../metadata/net/kernel/names.ts";
import { LISTENER_HEADERS } from "../../metadata/proxy/listener-headers.ts";
import { cleanEnv, HOLDFAST, run } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { mustRun, whyNotReal } from "../network/containers.ts";
import { type BridgeGuest, batch, NetNode, network } from "./node.ts";

/** Asks again and again on new connections; at the end of its input it prints how often, and what was no answer. */
const LOAD = `
import http.client, json, sys, threading, time
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
keep = sys.argv[1] == "keep"
count, bad, c = 0, [], None
while not done.is_set():
    try:
        if c is None: c = http.client.HTTPConnection("169.254.169.254", 80, timeout=10)
        c.request("GET", "/load"); r = c.getresponse(); r.read()
        if r.status != 200: bad.append(r.status)
        if not keep or r.getheader("connection") == "close": c.close(); c = None
    except Exception as e: bad.append(repr(e)); c = None
    count += 1
    time.sleep(0.005)
print(json.dumps({"count": count, "bad": bad}))
`;

/** Starts the load; `stop` resolves with what became of it. */
function load(
  guest: BridgeGuest,
  how: "new" | "keep",
): { stop: () => Promise<{ count: number; bad: unknown[] }> } {
  const child = spawn("ip", ["netns", "exec", guest.namespace, "python3", "-c", LOAD, how]);
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  return {
    stop: async () => {
      const closed = once(child, "close");
      child.stdin.end();
      await closed;
      return JSON.parse(text) as { count: number; bad: unknown[] };
    },
  };
}

describe.skipIf(whyNotReal() !== null)("the life of listeners", () => {
  let node: NetNode;
  let bridge: string;
  let vm: BridgeGuest;
  beforeEach(async () => {
    node = await NetNode.start();
    bridge = await node.bridge();
    vm = await node.guest(bridge, "10.30.0.5/24");
    expect(await node.wanted(network("blue", bridge, [vm]))).toEqual({ blue: "up" });
    expect((await vm.ask("/")).status).toBe(200);
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("everything is removed with the last network, and made again with the next", async () => {
    await node.wanted();
    expect(await node.left()).toEqual([]);
    expect(await node.wanted(network("blue", bridge, [vm]))).toEqual({ blue: "up" });
    expect((await vm.ask("/")).status).toBe(200);
  });

  test("a missing bridge fails its own network with the reason, until it exists", async () => {
    const missing = `${bridge.slice(0, 12)}-x`;
    const states = await node.wanted(network("blue", bridge, [vm]), network("red", missing, []));
    expect(states).toEqual({ blue: "up", red: expect.stringContaining(`no bridge ${missing}`) });
    expect((await vm.ask("/")).status).toBe(200);
    await node.bridge(missing);
    const red = await node.guest(missing, "10.30.0.5/24");
    await node.wanted(network("blue", bridge, [vm]), network("red", missing, [red]));
    await until(
      () => node.states().red === "up",
      () => `red is up; log: ${node.log}`,
    );
    expect((await red.ask("/")).echo.headers[LISTENER_HEADERS.network]).toBe("red");
  });

  test("invalid names, VLANs and addresses fail their own network only", async () => {
    const states = await node.wanted(
      network("blue", bridge, [vm]),
      network('x"\n  bind :80', bridge, []),
      network("odd", "br;x y", []),
      network("tall", bridge, [], { vlan: 5000 }),
      network("six", bridge, [], { address: "fd00::5/64" }),
    );
    expect(states).toMatchObject({
      blue: "up",
      'x"\n  bind :80': expect.stringContaining("its name"),
      odd: expect.stringContaining("br;x y"),
      tall: expect.stringContaining("VLAN 5000"),
      six: expect.stringContaining("not IPv4"),
    });
    expect((await vm.ask("/")).status).toBe(200);
  });

  test("a VLAN that the kernel refuses fails the network with the kernel's message", async () => {
    const filtering = existsSync(`/sys/class/net/${bridge}/bridge/vlan_filtering`);
    if (filtering) await mustRun("ip", ["link", "set", bridge, "type", "bridge", "vlan_filtering", "1"]);
    const states = await node.wanted(
      network("blue", bridge, [vm]),
      network("red", bridge, [], { vlan: 100, preserveDefaultVlan: false }),
    );
    expect(states.blue).toBe("up");
    expect(states.red).toMatch(filtering ? /^up$/ : /bridge -batch/);
  });

  test("a haproxy that is killed is started again", async () => {
    const pids = node.haproxyPids();
    expect(pids.length).toBeGreaterThanOrEqual(2);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await until(
      async () => (await vm.ask("/", ["--max-time", "1"])).status === 200,
      `haproxy again; ${node.log}`,
    );
    expect(node.haproxyPids().some((pid) => pids.includes(pid))).toBe(false);
  });

  test("no guest notices a killed metadata-net, and the next one takes over", async () => {
    const other = await node.guest(bridge, "10.30.0.6/24");
    const running = load(vm, "new");
    const pids = node.haproxyPids();
    await node.endNet("SIGKILL");
    expect((await vm.ask("/")).status).toBe(200);
    node.startNet();
    await node.wanted(network("blue", bridge, [vm, other]));
    expect((await other.ask("/")).status).toBe(200);
    const { count, bad } = await running.stop();
    expect(bad).toEqual([]);
    expect(count).toBeGreaterThan(20);
    expect(
      node.haproxyPids().some((pid) => pids.includes(pid)),
      "the same master",
    ).toBe(true);
  });

  test("what a killed metadata-net left of removed networks is removed by the next one", async () => {
    const second = await node.bridge();
    await node.wanted(network("blue", bridge, [vm]), network("red", second, []));
    await node.endNet("SIGKILL");
    // A namespace whose mount is gone leaves a file.
    const { namespacePrefix, linkPrefix } = node.names;
    await mustRun("ip", ["netns", "add", `${namespacePrefix}000000000000`]);
    await batch([
      `link add ${linkPrefix}00000000 type veth peer name eth0 netns ${namespacePrefix}000000000000`,
    ]);
    node.startNet();
    expect(await node.wanted(network("blue", bridge, [vm]))).toEqual({ blue: "up" });
    const names = listenerNames(node.names, "blue");
    const left = (await node.left()).filter((name) => !name.startsWith("haproxy"));
    expect(left.sort()).toEqual([names.link, names.namespace, node.names.table].sort());
    expect((await vm.ask("/")).status).toBe(200);
  });

  test("a bridge that an administrator recreates has its listener again", async () => {
    await mustRun("ip", ["link", "delete", bridge]);
    await mustRun("ip", ["link", "add", bridge, "type", "bridge"]);
    await batch([`link set ${bridge} up`, `link set ${vm.port} master ${bridge}`]);
    // Looked at every 30 s, and at every change.
    await node.wanted(network("blue", bridge, [vm]));
    await until(
      async () => (await vm.ask("/", ["--max-time", "1"])).status === 200,
      `joined again; ${node.log}`,
    );
  });

  test("a link, namespace or rules that somebody removes are made again", async () => {
    const names = listenerNames(node.names, "blue");
    await mustRun("ip", ["link", "delete", names.link]);
    await node.wanted(network("blue", bridge, [vm]));
    expect((await vm.ask("/")).status).toBe(200);
    // Without its rules the listener would be open, so that is heard of at once.
    await mustRun("nft", ["delete", "table", "bridge", node.names.table]);
    await until(
      async () => (await run("nft", ["list", "table", "bridge", node.names.table])).code === 0,
      () => `the rules are there again; log: ${node.log}`,
      20_000,
    );
    await mustRun("ip", ["netns", "delete", names.namespace]);
    await node.wanted(network("blue", bridge, [vm]));
    expect((await run("ip", ["netns", "list"])).stdout).toContain(names.namespace);
    expect((await vm.ask("/")).status).toBe(200);
    const repairs = [...node.log.matchAll(/^\{.*had been changed by somebody else.*$/gm)].map(([line]) =>
      JSON.parse(line),
    );
    const link = { what: "link", network: "blue", link: names.link, bridge };
    expect(repairs).toMatchObject([
      { ...link, difference: "the link was not there" },
      { what: "firewall", msg: "the table of rules had been changed by somebody else; it is as it was" },
      { ...link, msg: "the link of network blue had been changed by somebody else; it is as it was" },
    ]);
  });

  test("a run folder that somebody empties is filled again", async () => {
    rmSync(node.runDir, { recursive: true });
    const other = await node.guest(bridge, "10.30.0.6/24");
    expect(await node.wanted(network("blue", bridge, [vm, other]))).toEqual({ blue: "up" });
    expect((await other.ask("/")).status).toBe(200);
    rmSync(node.runDir, { recursive: true });
    const second = await node.bridge();
    const wanted = [network("blue", bridge, [vm]), network("red", second, [])];
    expect(await node.wanted(...wanted)).toEqual({ blue: "up", red: "up" });
    expect((await vm.ask("/")).status).toBe(200);
  });

  test("without the daemon every listener stays, and changes are followed again when it is back", async () => {
    await node.stopDaemon();
    const other = await node.guest(bridge, "10.30.0.6/24");
    node.want(network("blue", bridge, [vm, other]));
    await pause(1_000);
    expect((await vm.ask("/")).status).toBe(200);
    await node.startDaemon();
    await node.applied();
    expect((await other.ask("/")).status).toBe(200);
  });

  test("without the metadata server guests get a plain sentence, and its restart fails at most the requests under way", async () => {
    await node.stopUpstream();
    const away = await vm.ask("/", ["-i"]);
    expect(away.status).toBe(503);
    expect(away.body).toMatch(/text\/plain[\s\S]*temporarily unavailable. Please try again later.\s*$/);
    await node.startUpstream();
    const running = [load(vm, "new"), load(vm, "keep")];
    const rounds = 3;
    for (let round = 0; round < rounds; round += 1) {
      await node.stopUpstream();
      await pause(500);
      await node.startUpstream();
      await pause(300);
    }
    for (const one of running) {
      const { bad, count } = await one.stop();
      // A request that the server had in hand when it died may end with its connection; no other is missed.
      expect(bad.filter((what) => !String(what).startsWith("RemoteDisconnected"))).toEqual([]);
      expect(bad.length, `of ${count}`).toBeLessThanOrEqual(rounds);
    }
  });

  test("thirty reloads under load cost no request", async () => {
    const second = await node.bridge();
    const other = await node.guest(second, "10.30.0.5/24");
    await node.wanted(network("blue", bridge, [vm]), network("red", second, [other]));
    const running = [load(vm, "new"), load(vm, "keep"), load(other, "new")];
    const both = [network("blue", bridge, [vm]), network("red", second, [other])];
    for (let reload = 0; reload < 30; reload += 2) {
      await node.wanted(...both, network(`n${reload}`, second, []));
      await node.wanted(...both);
    }
    for (const one of running) {
      const { count, bad } = await one.stop();
      expect(bad).toEqual([]);
      expect(count).toBeGreaterThan(100);
    }
  }, 600_000);

  test("a new VM needs few changes, and no reload", async () => {
    const others: BridgeGuest[] = [];
    for (let number = 10; number < 15; number += 1)
      others.push(await node.guest(bridge, `10.30.0.${number}/24`));
    const workers = node.haproxyPids();
    const tookMs: number[] = [];
    for (let count = 1; count <= others.length; count += 1) {
      const started = performance.now();
      await node.wanted(network("blue", bridge, [vm, ...others.slice(0, count)]));
      tookMs.push(Math.round(performance.now() - started));
    }
    console.log(`applied in ${tookMs.join(", ")} ms`);
    expect(node.haproxyPids()).toEqual(workers);
    expect((await (others.at(-1) as BridgeGuest).ask("/")).status).toBe(200);
  });

  test("a second metadata-net on a run folder is refused, and so is one without root or with bad settings", async () => {
    const args = ["metadata-net", "--run-dir", node.runDir, "--metrics-address", "off"];
    const second = await run(process.execPath, [HOLDFAST, ...args]);
    expect(second).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("another holdfast metadata-net"),
    });
    const limited = await run(process.execPath, [HOLDFAST, ...args, "--rate-limit", "30"], {
      HOLDFAST_SPOOL: "/nowhere",
      HOLDFAST_KUBECONFIG: "/nowhere",
    });
    expect(limited).toMatchObject({ code: 2, stderr: expect.stringContaining("28 requests in a second") });
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as { port: number };
    const elsewhere = [
      "metadata-net",
      "--run-dir",
      `${node.runDir}2`,
      "--metrics-address",
      `127.0.0.1:${port}`,
    ];
    // It ends, and does not stay as a process that does nothing.
    const third = await run(process.execPath, [HOLDFAST, ...elsewhere]);
    taken.close();
    rmSync(`${node.runDir}2`, { recursive: true });
    expect(third).toMatchObject({ code: 1, stderr: expect.stringContaining("EADDRINUSE") });
  });
});

describe.skipIf(whyNotReal() !== null)("metadata-net from outside", () => {
  test("reports what is missing in /readyz, and counts haproxy's requests in /metrics", async () => {
    const node = await NetNode.start(["--metrics-address", "127.0.0.1:0"]);
    const get = async (path: string) => {
      const [, port] = /"port":(\d+)/.exec(node.log) ?? [];
      const answer = await fetch(`http://127.0.0.1:${port}${path}`);
      return { status: answer.status, body: await answer.text() };
    };
    try {
      const bridge = await node.bridge();
      const vm = await node.guest(bridge, "10.30.0.5/24");
      await node.wanted(network("blue", bridge, [vm]), network("red", `${bridge}x`, []));
      expect(await get("/healthz")).toEqual({ status: 200, body: "ok\n" });
      expect(await get("/readyz")).toEqual({ status: 503, body: "1 of 2 networks have no listener\n" });
      for (let count = 0; count < 3; count += 1) await vm.ask("/");
      const { body } = await get("/metrics");
      expect(body).toContain('holdfast_metadata_net_listeners{state="up"} 1\n');
      expect(body).toContain('holdfast_metadata_net_listeners{state="failed"} 1\n');
      expect(body).toContain('holdfast_metadata_net_requests_total{network="blue",status="2xx"} 3\n');
      expect(body).toContain('holdfast_metadata_net_reloads_total{outcome="ok"} 1\n');
      await node.wanted(network("blue", bridge, [vm]));
      expect(await get("/readyz")).toEqual({ status: 200, body: "ready\n" });
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("reports a haproxy that cannot be started", async () => {
    const node = await NetNode.start(["--haproxy", "/nowhere/haproxy"]);
    try {
      const bridge = await node.bridge();
      const states = await node.wanted(network("blue", bridge, []));
      expect(states.blue).toContain("/nowhere/haproxy cannot be run");
    } finally {
      expect(await node.stop(), node.log).toEqual([]);
    }
  });

  test("ends at SIGTERM before it has reached a daemon, and says why it cannot run without root", async () => {
    const node = await NetNode.start();
    await node.stopDaemon();
    await until(() => node.log.includes("started"), "the start");
    await node.endNet("SIGTERM");
    expect(node.process?.child.exitCode).toBe(0);
    expect(await node.stop()).toEqual([]);
    const nobody = spawn(
      "setpriv",
      ["--reuid", "65534", "--clear-groups", process.execPath, HOLDFAST, "metadata-net"],
      {
        env: cleanEnv(),
      },
    );
    let said = "";
    nobody.stderr.on("data", (chunk: Buffer) => {
      said += chunk;
    });
    const [code] = await once(nobody, "exit");
    expect(code, said).toBe(1);
    expect(said).toContain("must be root");
    rmSync(join(node.folder), { recursive: true, force: true });
  });
});

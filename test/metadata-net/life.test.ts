import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LISTENER_HEADERS } from "../../guests/haproxy/listener-headers.ts";
import { doorLink } from "../../guests/kernel/names.ts";
import { pause, until, untilSaid } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { load } from "./load.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { startPython } from "./python-process.ts";

/** One request, and another on the same connection once the input has ended. */
const ASK_TWICE = `
import http.client, sys
c = http.client.HTTPConnection("169.254.169.254", 80, timeout=60)
def one():
    c.request("GET", "/"); r = c.getresponse(); r.read(); return r.status
print(one(), flush=True)
sys.stdin.read()
c.sock.settimeout(3)
try: print(one())
except OSError as e: print("none")
`;

describe.skipIf(whyNotReal() !== null)("the life of the listener", () => {
  let node: NetNode;
  let vm: PortGuest;
  beforeEach(async () => {
    node = await NetNode.start();
    vm = await node.guest(null, "10.30.0.5/24");
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    const { status, body } = await vm.ask("/");
    expect(status, `${body}\n${node.log}`).toBe(200);
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  const servedAgain = (guest: PortGuest) =>
    until(
      async () => (await guest.ask("/", ["--max-time", "1"])).status === 200,
      () => `the guest is served again; ${node.log}`,
      20_000,
    );

  test("the listener is removed with the last port, and created again with the next", async () => {
    await node.wanted();
    expect(await node.left()).toEqual([]);
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    expect((await vm.ask("/")).status).toBe(200);
  });

  test("an invalid name or address fails its own port only", async () => {
    const problems = await node.wanted(
      vm.on("blue"),
      vm.on('x"\n  bind :80', { containerId: "one" }),
      vm.on("red", { containerId: "a b" }),
      vm.on("red", { containerId: "two", addresses: ["10.0.0.300"] }),
      vm.on("red", { containerId: "three", addresses: [] }),
    );
    expect(problems).toEqual({
      "one eth0": expect.stringMatching(/^final: the name of network/),
      "a b eth0": expect.stringMatching(/^final: its container ID/),
      "two eth0": expect.stringMatching(/^final: .*10\.0\.0\.300/),
      "three eth0": "pending: it has no recorded address",
    });
    expect((await vm.ask("/")).status).toBe(200);
  });

  test("a haproxy that is killed is started again", async () => {
    const pids = node.haproxyPids();
    expect(pids.length).toBeGreaterThanOrEqual(2);
    for (const pid of pids) process.kill(pid, "SIGKILL");
    await servedAgain(vm);
    expect(node.haproxyPids().some((pid) => pids.includes(pid))).toBe(false);
  });

  test("no guest notices a killed metadata-net, and the next one takes over without a reload", async () => {
    const other = await node.guest(null, "10.30.0.6/24");
    const running = await load(vm, "new");
    const pids = node.haproxyPids();
    await node.endNet("SIGKILL");
    expect((await vm.ask("/")).status).toBe(200);
    node.startNet();
    expect(await node.wanted(vm.on("blue"), other.on("blue"))).toEqual({});
    expect((await other.ask("/")).status).toBe(200);
    expect((await running.stop()).bad).toEqual([]);
    expect(node.haproxyPids()).toEqual(pids);
  });

  test("a port that was removed while metadata-net was down is not served after its start", async () => {
    const other = await node.guest(null, "10.30.0.6/24");
    expect(await node.wanted(vm.on("blue"), other.on("blue"))).toEqual({});
    await node.endNet("SIGKILL");
    expect((await other.ask("/")).status).toBe(200);
    node.startNet();
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    expect((await other.ask("/", ["--max-time", "1"])).status).toBe(0);
    expect((await vm.ask("/")).status).toBe(200);
  });

  test("a removed guest gets no answer, even on a kept connection", async () => {
    const other = await node.guest(null, "10.30.0.6/24");
    expect(await node.wanted(vm.on("blue"), other.on("blue"))).toEqual({});
    const kept = await startPython(other.namespace, ASK_TWICE, []);
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    expect(await kept.stop()).toMatch(/^200\n(none|503)\n$/);
  });

  test("a guest is served again after its link was recreated", async () => {
    const address = async () => (await vm.ask("/")).echo.headers[LISTENER_HEADERS.subject];
    expect(await address()).toContain("/eth0");
    await node.mustRun("ip", ["link", "delete", vm.port]);
    await batch([`link add ${vm.port} type veth peer name eth0 netns ${vm.namespace}`, `link set ${vm.port} up`]);
    await batch(
      ["address add 10.30.0.5/24 dev eth0", "link set eth0 up", "route add 169.254.0.0/16 dev eth0"],
      vm.namespace,
    );
    await servedAgain(vm);
    expect(await address()).toContain("/eth0");
  });

  test("removed parts of the listener are restored and logged", async () => {
    const { namespace, table } = node.names;
    await node.mustRun("nft", ["delete", "table", "netdev", table]);
    await servedAgain(vm);
    await node.mustRun("ip", ["link", "delete", doorLink(node.names, "main")]);
    await servedAgain(vm);
    await node.mustRun("ip", ["netns", "delete", namespace]);
    await servedAgain(vm);
    const repairs = [...node.log.matchAll(/^\{.*had been changed by somebody else.*$/gm)].map(
      ([line]) => JSON.parse(line).what as string,
    );
    expect(new Set(repairs)).toEqual(new Set(["ingress", "listener"]));
  });

  test("changes in the listener's namespace are reverted and logged", async () => {
    const { namespace } = node.names;
    await batch(
      ["route flush table all", "neigh flush dev eth0 nud permanent", "address add 10.9.9.9/24 dev eth0"],
      namespace,
    );
    await node.mustRun("ip", ["netns", "exec", namespace, "nft", "flush", "ruleset"]);
    expect((await vm.ask("/", ["--max-time", "1"])).status).toBe(0);
    // A flush of rules makes it look at everything.
    await node.mustRun("nft", ["delete", "table", "netdev", node.names.table]);
    await servedAgain(vm);
    const shown = await node.mustRun("ip", ["-n", namespace, "address"]);
    expect(shown.stdout).not.toContain("10.9.9.9");
    const rules = await node.mustRun("ip", ["netns", "exec", namespace, "nft", "list", "ruleset"]);
    expect(rules.stdout).toContain("policy drop");
    await untilSaid(() => node.log, "the listener had been changed by somebody else");
  });

  test("a run directory that was deleted is written again", async () => {
    rmSync(node.runDir, { recursive: true });
    const other = await node.guest(null, "10.30.0.6/24");
    expect(await node.wanted(vm.on("blue"), other.on("blue"))).toEqual({});
    for (const guest of [vm, other]) expect((await guest.ask("/")).status).toBe(200);
  });

  test("guests are served while the daemon is down, and changes are followed again afterwards", async () => {
    await node.stopDaemon();
    const other = await node.guest(null, "10.30.0.6/24");
    node.want(vm.on("blue"), other.on("blue"));
    await pause(1_000);
    expect((await vm.ask("/")).status).toBe(200);
    await node.startDaemon();
    expect(await node.applied()).toEqual({});
    expect((await other.ask("/")).status).toBe(200);
  });

  test("without the metadata server guests get a 503, and its restart fails at most the requests under way", async () => {
    await node.stopUpstream();
    const away = await vm.ask("/", ["-i"]);
    expect(away.status).toBe(503);
    expect(away.body).toMatch(/text\/plain[\s\S]*temporarily unavailable. Please try again later.\s*$/);
    await node.startUpstream();
    const running = await Promise.all([load(vm, "new"), load(vm, "keep")]);
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

  test("added and removed guests fail no request of others, and do not reload haproxy", async () => {
    const other = await node.guest(null, "10.30.0.5/24");
    const passing = await node.guest(null, "10.30.0.7/24");
    const both = [vm.on("blue"), other.on("red")];
    expect(await node.wanted(...both)).toEqual({});
    const pids = node.haproxyPids();
    const running = await Promise.all([load(vm, "new"), load(vm, "keep"), load(other, "new")]);
    for (let round = 0; round < 10; round += 1) {
      expect(await node.wanted(...both, passing.on(`n${round}`))).toEqual({});
      expect((await passing.ask("/")).echo.headers[LISTENER_HEADERS.network]).toBe(`n${round}`);
      await node.wanted(...both);
    }
    for (const one of running) expect((await one.stop()).bad).toEqual([]);
    expect(node.haproxyPids()).toEqual(pids);
  });
});

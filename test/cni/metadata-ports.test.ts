import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { runShim, type ServedDaemon, TestDaemon } from "../harness/daemon.ts";
import {
  closeBridges,
  metric,
  NOTHING_APPLIED,
  PortClient,
  poll,
  untilLogged,
  wantedNow,
  withMetadata,
} from "../harness/port-client.ts";
import { pause, untilListening } from "../harness/wait.ts";
import {
  addressesOf,
  expectDone,
  pod,
  processTest,
  processTestWith,
  restart,
  test,
  testWith,
  until,
} from "./fixtures.ts";
import { nad } from "./manifests.ts";

/*
 * `holdfast metadata-net` asks the daemon which interfaces of this node get metadata, and tells which of them are not
 * served; an ADD is answered when its own is. The tests play metadata-net.
 */

const LATE = 'holdfast_metadata_waits_total{outcome="late"}';
const UP = 'holdfast_metadata_waits_total{outcome="up"}';
const FAILED = 'holdfast_metadata_waits_total{outcome="failed"}';
const FINAL = { kind: "final", problem: "net1 is a macvlan: it has no end on this node" } as const;
const PENDING = { kind: "pending", problem: "there is no port of br-int for it yet" } as const;

function listen(daemon: ServedDaemon, decide?: Parameters<typeof PortClient.start>[1]): PortClient {
  const client = PortClient.start(daemon, decide);
  onTestFinished(() => client.stop());
  return client;
}

/** A gate that opens once. */
function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

describe("holdfast check", () => {
  const found = async (daemon: ServedDaemon) =>
    ((await daemon.get("/v1/check")).json() as { findings: { invariant: string; message: string }[] }).findings;

  test("names each interface that is not served, with the reason", async ({ daemon }) => {
    listen(daemon, ({ network }) => (network === "blue" ? FINAL : null));
    for (const name of ["blue", "red"])
      addressesOf(await daemon.cni("ADD", `c-${name}`, { config: withMetadata(name) }));
    expect(await found(daemon)).toMatchObject([
      {
        invariant: "metadata",
        message: `interface eth0 of container c-blue on network blue gets no metadata: ${FINAL.problem}`,
      },
    ]);
  });

  test("names one reason where no guest is served at all", async ({ daemon }) => {
    closeBridges(daemon, "br-blue");
    listen(daemon).problem = "haproxy is not installed";
    for (const name of ["c1", "c2"]) addressesOf(await daemon.cni("ADD", name, { config: withMetadata("blue") }));
    expect(await found(daemon)).toMatchObject([
      { message: "no guest of this node gets metadata: haproxy is not installed" },
    ]);
    expect(await metric(daemon, 'holdfast_metadata_ports{state="failed"}')).toBe(2);
  });

  test("counts what it does not name", async ({ daemon }) => {
    listen(daemon, () => FINAL);
    for (let number = 0; number < 12; number += 1)
      addressesOf(await daemon.cni("ADD", `c${number}`, { config: withMetadata("blue") }));
    const findings = await found(daemon);
    expect(findings).toHaveLength(11);
    expect(findings.at(-1)?.message).toBe("2 more interfaces get no metadata");
  });

  testWith("--metadata-wait-ms", "50")(
    "says when nobody serves guests, and nothing where none is wanted",
    async ({ daemon }) => {
      closeBridges(daemon, "br-blue");
      expect(await found(daemon)).toEqual([]);
      addressesOf(await daemon.cni("ADD", "c1", { config: withMetadata("blue") }));
      const [finding, ...others] = await found(daemon);
      expect(others).toEqual([]);
      expect(finding?.message).toContain("holdfast metadata-net is not heard on this node");
      expect(finding?.message).toContain("1 interface with metadata");
      listen(daemon);
      await until(async () => (await found(daemon)).length === 0, "the finding to go");
    },
  );
});

describe("the wanted ports", () => {
  test("have everything that a driver needs", async ({ daemon }) => {
    const client = listen(daemon);
    const ipam = { subnets: "fd10::/64,10.10.0.0/24,10.20.0.0/16", gateway: "10.10.0.1" };
    const config = {
      ...withMetadata("blue", ipam, { vlan: 7, mtu: 1400 }),
      runtimeConfig: { mac: "02:00:00:00:00:07" },
    };
    addressesOf(await daemon.cni("ADD", "c1", { config, ifname: "net1" }));
    expect(client.answers.at(-1)?.ovnNetworks).toEqual([]);
    expect(client.wanted).toEqual([
      {
        network: "blue",
        containerId: "c1",
        interface: "net1",
        netns: "/run/netns/c1",
        addresses: ["fd10::1", "10.10.0.2", "10.20.0.1"],
        mac: "02:00:00:00:00:07",
      },
    ]);
  });

  test("are there whatever the plugin, in order of creation, with the MAC of CNI_ARGS", async ({ daemon }) => {
    const client = listen(daemon);
    for (const [at, type] of ["macvlan", "bridge", "ovs"].entries()) {
      const config = withMetadata(type, {}, { type });
      addressesOf(await daemon.cni("ADD", `c${at}`, { config, args: `MAC=02:00:00:00:00:0${at}` }));
    }
    expect(client.wanted.map(({ network, mac }) => [network, mac])).toEqual([
      ["macvlan", "02:00:00:00:00:00"],
      ["bridge", "02:00:00:00:00:01"],
      ["ovs", "02:00:00:00:00:02"],
    ]);
  });

  test("follow ADD and DEL", async ({ daemon }) => {
    const client = listen(daemon);
    const blue = withMetadata("blue");
    const green = withMetadata("green");
    await daemon.cni("ADD", "c1", { config: blue });
    await daemon.cni("ADD", "c2", { config: green });
    await daemon.cni("ADD", "c3", { config: blue });
    expect(client.summary).toEqual(["blue c1/eth0", "green c2/eth0", "blue c3/eth0"]);
    expectDone(await daemon.cni("DEL", "c1", { config: blue }));
    await client.untilWanted(["green c2/eth0", "blue c3/eth0"]);
    expectDone(await daemon.cni("DEL", "c2", { config: green }));
    expectDone(await daemon.cni("DEL", "c3", { config: blue }));
    await client.untilWanted([]);
    expect(await metric(daemon, 'holdfast_metadata_ports{state="wanted"}')).toBe(0);
  });

  test("end with attachments that end in other ways than by a DEL", async ({ daemon, namespaces }) => {
    const client = listen(daemon);
    const config = withMetadata("blue", {}, { cniVersion: "1.1.0" }) as Record<string, unknown>;
    const netns = await namespaces.add();
    await daemon.cni("ADD", "collected", { config, netns });
    await daemon.cni("ADD", "sandbox-1", { config, args: pod("pod-a") });
    await daemon.cni("ADD", "sandbox-2", { config, args: pod("pod-a") });
    await client.untilWanted(["blue collected/eth0", "blue sandbox-2/eth0"]);
    await namespaces.remove(netns);
    const valid = [{ containerID: "sandbox-2", ifname: "eth0" }];
    expectDone(await daemon.cni("GC", "", { config: { ...config, "cni.dev/valid-attachments": valid } }));
    await client.untilWanted(["blue sandbox-2/eth0"]);
    // With no daemon at the socket, the plugin binary writes the DEL to the spool.
    const away = join(daemon.directory, "nobody.sock");
    const spooled = await runShim("DEL", "sandbox-2", { config, socket: away, spool: daemon.spool });
    expect(spooled.code).toBe(0);
    await client.untilWanted([]);
  });

  processTest("are known to a restarted daemon from the state that it has kept", async ({ daemon }) => {
    const client = listen(daemon);
    await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    const before = client.answers.at(-1);
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      await restart(daemon, signal);
      const after = await wantedNow(daemon);
      expect(after.ports).toEqual(before?.ports);
      expect(after.version).not.toBe(before?.version);
    }
    expect(client.answers.every(({ ports }, i) => i === 0 || ports.length === 1)).toBe(true);
  });

  test("follow the applied definition", async ({ daemon }) => {
    const client = listen(daemon);
    await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await client.untilWanted(["blue c1/eth0"]);
    const apply = (config: object) => daemon.post("/v1/apply", { objects: [nad("blue", config)] });
    expect((await apply(withMetadata("blue", { metadata: false }))).json().results[0].action).toBe("created");
    await client.untilWanted([]);
    await apply(withMetadata("blue"));
    await client.untilWanted(["blue c1/eth0"]);
  });
});

describe("an ADD", () => {
  const patient = testWith("--metadata-wait-ms", "30000");
  const hurried = testWith("--metadata-wait-ms", "200");

  patient("is answered when its port is served, and not before", async ({ daemon }) => {
    const served = gate();
    const client = listen(daemon, async () => {
      await served.opened;
      return null;
    });
    let answered = false;
    const adding = daemon.cni("ADD", "c1", { config: withMetadata("blue") }).then((answer) => {
      answered = true;
      return answer;
    });
    await client.untilWanted(["blue c1/eth0"]);
    expect(answered).toBe(false);
    served.open();
    expect(addressesOf(await adding)).toEqual(["10.10.0.1/24"]);
    expect(await metric(daemon, UP)).toBe(1);
    expect(await metric(daemon, 'holdfast_metadata_ports{state="up"}')).toBe(1);
  });

  patient("waits for its own port, though another one of its network is served", async ({ daemon }) => {
    let second = gate();
    second.open();
    const client = listen(daemon, async () => {
      await second.opened;
      return null;
    });
    await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    second = gate();
    let answered = false;
    const adding = daemon.cni("ADD", "c2", { config: withMetadata("blue") }).then(() => {
      answered = true;
    });
    await client.untilWanted(["blue c1/eth0", "blue c2/eth0"]);
    expect(answered).toBe(false);
    second.open();
    await adding;
  });

  patient("does not wait for the failed port of another", async ({ daemon }) => {
    listen(daemon, ({ containerId }) => (containerId === "c1" ? FINAL : null));
    await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await daemon.cni("ADD", "c2", { config: withMetadata("blue") });
    expect([await metric(daemon, FAILED), await metric(daemon, UP)]).toEqual([1, 1]);
  });

  patient("of a container that is deleted meanwhile does not continue to wait", async ({ daemon }) => {
    closeBridges(daemon, "br-blue");
    const client = listen(daemon, () => new Promise<null>(() => {}));
    const adding = daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await client.untilWanted(["blue c1/eth0"]);
    expectDone(await daemon.cni("DEL", "c1", { config: withMetadata("blue") }));
    expect((await adding).code).toBe(0);
    await client.stop().catch(() => {});
  });

  patient.for<[typeof FINAL | typeof PENDING]>([[FINAL], [PENDING]])(
    "does not wait to the end where its port is reported as %j",
    async ([verdict], { daemon }) => {
      closeBridges(daemon, "br-blue");
      listen(daemon, () => verdict);
      const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
      // A route into the void would be worse than none.
      const { routes = [] } = answer.json();
      expect(routes).toHaveLength(verdict === FINAL ? 0 : 1);
      await untilLogged(daemon, verdict.problem);
      expect(await metric(daemon, FAILED)).toBe(1);
      expect(await metric(daemon, 'holdfast_metadata_ports{state="failed"}')).toBe(1);
    },
  );

  patient("a later interface gets the route when an earlier one can never be served", async ({ daemon }) => {
    listen(daemon, ({ network }) => (network === "mac" ? FINAL : null));
    const routesOf = async (name: string, ifname: string, config: object) =>
      (await daemon.cni("ADD", name, { config, ifname })).json().routes ?? [];
    expect(await routesOf("c1", "net1", withMetadata("mac", {}, { type: "macvlan" }))).toEqual([]);
    expect(await routesOf("c1", "net2", withMetadata("blue"))).toEqual([{ dst: "169.254.169.254/32" }]);
    const asked = await daemon.get("/v1/identity?container=c1");
    expect(asked.json().identity.interfaces).toMatchObject([
      { network: "mac", routes: [] },
      { network: "blue", routes: [{ dst: "169.254.169.254/32", gw: "0.0.0.0" }] },
    ]);
  });

  patient("waits a moment for a port that is pending, and takes no notice of it then", async ({ daemon }) => {
    const tries: number[] = [];
    const client = listen(daemon, ({ containerId }) => {
      tries.push(1);
      return containerId === "c1" && client.wanted.length === 1 ? PENDING : null;
    });
    const first = daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await until(() => tries.length > 0, "the first report");
    // Another ADD makes metadata-net report again.
    await daemon.cni("ADD", "c2", { config: withMetadata("blue") });
    expect((await first).code).toBe(0);
    expect([await metric(daemon, FAILED), await metric(daemon, UP)]).toEqual([0, 2]);
  });

  patient("under ptp, which makes the interface after it, does not wait at all", async ({ daemon }) => {
    const client = listen(daemon, () => new Promise<null>(() => {}));
    await until(() => client.answers.length > 0, "metadata-net to be heard");
    const config = withMetadata("blue", {}, { type: "ptp", bridge: undefined });
    expect((await daemon.cni("ADD", "c1", { config })).code).toBe(0);
    expect((await wantedNow(daemon)).ports).toHaveLength(1);
  });

  hurried("is answered after the wait when nobody serves its port, with a warning", async ({ daemon }) => {
    closeBridges(daemon, "br-blue");
    const startMs = performance.now();
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    expect(performance.now() - startMs).toBeGreaterThan(200);
    expect(answer.json().routes).toHaveLength(1);
    await untilLogged(daemon, "it was not served within 200 ms");
    expect(await metric(daemon, LATE)).toBe(1);
  });

  processTestWith({ args: ["--metadata-wait-ms", "30000"] })(
    "that waits is answered when the daemon stops",
    async ({ daemon }) => {
      closeBridges(daemon, "br-blue");
      const adding = daemon.cni("ADD", "c1", { config: withMetadata("blue") });
      await until(async () => (await wantedNow(daemon)).ports.length === 1, "the ADD to wait");
      await restart(daemon, "SIGTERM");
      expect((await adding).json().routes).toHaveLength(1);
    },
  );
});

const REPORT = { ...NOTHING_APPLIED, waitMs: 0 };
const REPORTED = { containerId: "c1", interface: "net1", ...FINAL };

describe("the request of metadata-net", () => {
  test.for<[unknown, string]>([
    [[], "a JSON object"],
    [{ ...REPORT, applied: 7 }, "applied"],
    [{ ...REPORT, applied: undefined }, "applied"],
    [{ ...REPORT, failed: undefined }, "failed"],
    [{ ...REPORT, failed: {} }, "failed"],
    [{ ...REPORT, problem: undefined }, "problem"],
    [{ ...REPORT, problem: 7 }, "problem"],
    [{ ...REPORT, waitMs: -1 }, "waitMs"],
    [{ ...REPORT, waitMs: 60_001 }, "waitMs"],
    [{ ...REPORT, waitMs: "1" }, "waitMs"],
    [{ ...REPORT, failed: [null] }, "failed[0]"],
    [{ ...REPORT, failed: [{ ...REPORTED, containerId: "" }] }, "failed[0].containerId"],
    [{ ...REPORT, failed: [{ ...REPORTED, interface: 7 }] }, "failed[0].interface"],
    [{ ...REPORT, failed: [{ ...REPORTED, kind: "down" }] }, "failed[0].kind"],
    [{ ...REPORT, failed: [REPORTED, { ...REPORTED, problem: null }] }, "failed[1].problem"],
    [{ ...REPORT, more: 1 }, "more"],
  ])("%j is refused, naming %s", async ([body, named], { daemon }) => {
    const answer = await poll(daemon, body);
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: "REQUEST_INVALID", message: expect.stringContaining(named) });
  });

  test("waits for as long as it asks, and gets the same answer again", async ({ daemon }) => {
    const first = await wantedNow(daemon);
    const startMs = performance.now();
    const answer = await poll(daemon, { ...REPORT, applied: first.version, waitMs: 300 });
    expect(performance.now() - startMs).toBeGreaterThan(299);
    expect(answer.json()).toEqual(first);
  });

  processTest("may be aborted without a trace, and a stop of the daemon waits for none", async ({ daemon }) => {
    const { version } = await wantedNow(daemon);
    const report = { ...REPORT, applied: version, waitMs: 60_000 };
    const given = new AbortController();
    const aborted = poll(daemon, report, given.signal).catch(() => "hung up");
    const waiting = poll(daemon, report).catch(() => null);
    await pause(50);
    given.abort();
    expect(await aborted).toBe("hung up");
    const startMs = performance.now();
    await restart(daemon, "SIGTERM");
    expect((await waiting)?.status ?? 503).toBe(503);
    expect(performance.now() - startMs).toBeLessThan(30_000);
  });

  processTest("is refused while the state is not open", async ({ daemon }) => {
    const client = listen(daemon);
    await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await client.stop();
    await daemon.end("SIGTERM");
    rmSync(join(daemon.state, "holdfast.db"));
    const lost = await TestDaemon.start({ directory: daemon.directory, wait: false });
    onTestFinished(() => lost.end().then(() => {}));
    await untilListening(daemon.socket);
    const answer = await poll(daemon, { ...REPORT, waitMs: 300 });
    expect([answer.status, answer.json().code]).toEqual([503, "NOT_READY"]);
    expect((await daemon.post("/v1/rebuild", { empty: true })).status).toBe(200);
    expect((await wantedNow(daemon)).ports).toEqual([]);
  });
});

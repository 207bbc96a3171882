import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import type { ListenerState } from "../../metadata/listeners/wire.ts";
import { runShim, type ServedDaemon, TestDaemon } from "../harness/daemon.ts";
import {
  ListenerClient,
  metric,
  poll,
  untilLogged,
  wantedNow,
  withMetadata,
} from "../harness/listener-client.ts";
import { pause } from "../harness/wait.ts";
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
 * `holdfast metadata-net` asks the daemon what listeners this node wants, and tells what is up; an ADD is answered when its
 * own is. The tests play metadata-net.
 */

const LATE = 'holdfast_metadata_waits_total{outcome="late"}';
const UP = 'holdfast_metadata_waits_total{outcome="up"}';
const FAILED = 'holdfast_metadata_waits_total{outcome="failed"}';

function listen(daemon: ServedDaemon, decide?: Parameters<typeof ListenerClient.start>[1]): ListenerClient {
  const client = ListenerClient.start(daemon, decide);
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
    ((await daemon.get("/v1/check")).json() as { findings: { invariant: string; message: string }[] })
      .findings;

  test("names a listener that cannot be made, with the reason", async ({ daemon }) => {
    listen(daemon, ({ network }) =>
      network === "blue"
        ? { network, state: "failed", problem: "br-blue is no bridge" }
        : { network, state: "up" },
    );
    for (const name of ["blue", "red"])
      addressesOf(await daemon.cni("ADD", `c-${name}`, { config: withMetadata(name) }));
    expect(await found(daemon)).toMatchObject([
      {
        invariant: "metadata",
        message: "network blue has no metadata on this node: br-blue is no bridge",
      },
    ]);
  });

  testWith("--metadata-wait-ms", "50")(
    "says when nobody makes listeners, and nothing where none is wanted",
    async ({ daemon }) => {
      expect(await found(daemon)).toEqual([]);
      addressesOf(await daemon.cni("ADD", "c1", { config: withMetadata("blue") }));
      const [finding, ...others] = await found(daemon);
      expect(others).toEqual([]);
      expect(finding?.message).toContain("holdfast metadata-net is not heard on this node");
      expect(finding?.message).toContain("network blue");
      listen(daemon);
      await until(async () => (await found(daemon)).length === 0, "the finding to go");
    },
  );
});

describe("the wanted listeners", () => {
  test("have everything that a listener needs", async ({ daemon }) => {
    const client = listen(daemon);
    const ipam = { subnets: "fd10::/64,10.10.0.0/24,10.20.0.0/16", gateway: "10.10.0.1" };
    const config = {
      ...withMetadata("blue", ipam, { vlan: 7, preserveDefaultVlan: false, mtu: 1400 }),
      runtimeConfig: { mac: "02:00:00:00:00:07" },
    };
    addressesOf(await daemon.cni("ADD", "c1", { config, ifname: "net1" }));
    expect(client.wanted).toEqual([
      {
        network: "blue",
        bridge: "br-blue",
        vlan: 7,
        preserveDefaultVlan: false,
        mtu: 1400,
        address: "10.10.0.254/24",
        subnets: ["10.10.0.0/24", "10.20.0.0/16"],
        attachments: [
          {
            containerId: "c1",
            interface: "net1",
            netns: "/run/netns/c1",
            addresses: ["10.10.0.2", "10.20.0.1"],
            mac: "02:00:00:00:00:07",
          },
        ],
      },
    ]);
  });

  test("have the defaults of the bridge plugin, and the MAC of CNI_ARGS", async ({ daemon }) => {
    const client = listen(daemon);
    const config = withMetadata("blue", {}, { bridge: undefined });
    addressesOf(await daemon.cni("ADD", "c1", { config, args: "MAC=02:00:00:00:00:09" }));
    addressesOf(await daemon.cni("ADD", "c2", { config }));
    expect(client.wanted).toMatchObject([
      { bridge: "cni0", vlan: null, preserveDefaultVlan: true, mtu: null },
    ]);
    expect(client.wanted[0]?.attachments.map(({ mac }) => mac)).toEqual(["02:00:00:00:00:09", null]);
  });

  test("follow ADD and DEL per network, and end with the last attachment", async ({ daemon }) => {
    const client = listen(daemon);
    const blue = withMetadata("blue");
    const green = withMetadata("green");
    await daemon.cni("ADD", "c1", { config: blue });
    await daemon.cni("ADD", "c2", { config: green });
    await daemon.cni("ADD", "c3", { config: blue });
    expect(client.summary).toEqual(["blue: c1/eth0 c3/eth0", "green: c2/eth0"]);
    expectDone(await daemon.cni("DEL", "c1", { config: blue }));
    await client.untilWanted(["blue: c3/eth0", "green: c2/eth0"]);
    expectDone(await daemon.cni("DEL", "c2", { config: green }));
    expectDone(await daemon.cni("DEL", "c3", { config: blue }));
    await client.untilWanted([]);
    expect(await metric(daemon, 'holdfast_metadata_listeners{state="wanted"}')).toBe(0);
  });

  test("end with attachments that end in other ways than by a DEL", async ({ daemon, namespaces }) => {
    const client = listen(daemon);
    const config = withMetadata("blue", {}, { cniVersion: "1.1.0" }) as Record<string, unknown>;
    const netns = await namespaces.add();
    await daemon.cni("ADD", "collected", { config, netns });
    await daemon.cni("ADD", "sandbox-1", { config, args: pod("pod-a") });
    await daemon.cni("ADD", "sandbox-2", { config, args: pod("pod-a") });
    await client.untilWanted(["blue: collected/eth0 sandbox-2/eth0"]);
    await namespaces.remove(netns);
    const valid = [{ containerID: "sandbox-2", ifname: "eth0" }];
    expectDone(await daemon.cni("GC", "", { config: { ...config, "cni.dev/valid-attachments": valid } }));
    await client.untilWanted(["blue: sandbox-2/eth0"]);
    // With no daemon at the socket, the plugin binary writes the DEL to the spool.
    const away = join(daemon.folder, "nobody.sock");
    const spooled = await runShim("DEL", "sandbox-2", { config, socket: away, spool: daemon.spool });
    expect(spooled.code).toBe(0);
    await client.untilWanted([]);
  });

  processTest("are known to a restarted daemon from the state that it has kept", async ({ daemon }) => {
    const client = listen(daemon);
    await daemon.cni("ADD", "c1", { config: withMetadata("blue", {}, { vlan: 9 }) });
    const before = client.answers.at(-1);
    for (const signal of ["SIGKILL", "SIGTERM"] as const) {
      await restart(daemon, signal);
      const after = await wantedNow(daemon);
      expect(after.networks).toEqual(before?.networks);
      expect(after.version).not.toBe(before?.version);
    }
    expect(client.answers.every(({ networks }, i) => i === 0 || networks.length === 1)).toBe(true);
  });

  test("follow the applied definition", async ({ daemon }) => {
    const client = listen(daemon);
    await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await client.untilWanted(["blue: c1/eth0"]);
    const apply = (config: object) => daemon.post("/v1/apply", { objects: [nad("blue", config)] });
    expect((await apply(withMetadata("blue", { metadata: false }))).json().results[0].action).toBe("created");
    await client.untilWanted([]);
    await apply(withMetadata("blue", { metadata: { address: "10.10.0.99" } }));
    await client.untilWanted(["blue: c1/eth0"]);
    expect(client.wanted[0]?.address).toBe("10.10.0.99/24");
  });
});

describe("an ADD", () => {
  const patient = testWith("--metadata-wait-ms", "30000");
  const hurried = testWith("--metadata-wait-ms", "200");

  patient("is answered when its listener is up, and not before", async ({ daemon }) => {
    const setUp = gate();
    const client = listen(daemon, async ({ network }) => {
      await setUp.opened;
      return { network, state: "up" };
    });
    let answered = false;
    const adding = daemon.cni("ADD", "c1", { config: withMetadata("blue") }).then((answer) => {
      answered = true;
      return answer;
    });
    await client.untilWanted(["blue: c1/eth0"]);
    expect(answered).toBe(false);
    setUp.open();
    expect(addressesOf(await adding)).toEqual(["10.10.0.1/24"]);
    expect(await metric(daemon, UP)).toBe(1);
    expect(await metric(daemon, 'holdfast_metadata_listeners{state="up"}')).toBe(1);
  });

  patient(
    "waits until the listener knows its attachment, even when the listener is up already",
    async ({ daemon }) => {
      let second = gate();
      second.open();
      const client = listen(daemon, async ({ network }) => {
        await second.opened;
        return { network, state: "up" };
      });
      await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
      second = gate();
      let answered = false;
      const adding = daemon.cni("ADD", "c2", { config: withMetadata("blue") }).then(() => {
        answered = true;
      });
      await client.untilWanted(["blue: c1/eth0 c2/eth0"]);
      expect(answered).toBe(false);
      second.open();
      await adding;
    },
  );

  patient("of a container that is deleted meanwhile does not continue to wait", async ({ daemon }) => {
    const client = listen(daemon, () => new Promise<ListenerState>(() => {}));
    const adding = daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await client.untilWanted(["blue: c1/eth0"]);
    expectDone(await daemon.cni("DEL", "c1", { config: withMetadata("blue") }));
    expect((await adding).code).toBe(0);
    await client.stop().catch(() => {});
  });

  patient("does not wait where the listener cannot be set up", async ({ daemon }) => {
    listen(daemon, ({ network }) => ({ network, state: "failed", problem: "br-blue is no bridge" }));
    const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    expect(answer.json().routes).toHaveLength(1);
    await untilLogged(daemon, "br-blue is no bridge");
    expect(await metric(daemon, FAILED)).toBe(1);
    expect(await metric(daemon, 'holdfast_metadata_listeners{state="failed"}')).toBe(1);
  });

  patient(
    "does not fail for an earlier failure of the listener, because its bridge may exist now",
    async ({ daemon }) => {
      const setUp = gate();
      const client = listen(daemon, async ({ network, attachments }) => {
        if (attachments.length === 1)
          return { network, state: "failed", problem: "there is no bridge br-blue" };
        await setUp.opened;
        return { network, state: "up" };
      });
      await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
      let answered = false;
      const adding = daemon.cni("ADD", "c2", { config: withMetadata("blue") }).then(() => {
        answered = true;
      });
      await client.untilWanted(["blue: c1/eth0 c2/eth0"]);
      await pause(200);
      expect(answered).toBe(false);
      setUp.open();
      await adding;
      expect([await metric(daemon, FAILED), await metric(daemon, UP)]).toEqual([1, 1]);
    },
  );

  hurried(
    "is answered after the wait when nobody sets the listener up, with a warning",
    async ({ daemon }) => {
      const startMs = performance.now();
      const answer = await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
      expect(performance.now() - startMs).toBeGreaterThan(200);
      expect(answer.json().routes).toHaveLength(1);
      await untilLogged(daemon, "its listener was not up within 200 ms");
      expect(await metric(daemon, LATE)).toBe(1);
    },
  );

  processTestWith({ args: ["--metadata-wait-ms", "30000"] })(
    "that waits is answered when the daemon stops",
    async ({ daemon }) => {
      const adding = daemon.cni("ADD", "c1", { config: withMetadata("blue") });
      await until(async () => (await wantedNow(daemon)).networks.length === 1, "the ADD to wait");
      await restart(daemon, "SIGTERM");
      expect((await adding).json().routes).toHaveLength(1);
    },
  );
});

describe("another bridge or VLAN for the same network", () => {
  processTest("has no metadata, and is reported until it ends", async ({ daemon }) => {
    const client = listen(daemon);
    const first = withMetadata("blue");
    const other = withMetadata("blue", {}, { vlan: 7 });
    expect((await daemon.cni("ADD", "c1", { config: first })).json().routes).toHaveLength(1);
    const answer = await daemon.cni("ADD", "c2", { config: other });
    expect(addressesOf(answer)).toEqual(["10.10.0.2/24"]);
    expect(answer.json()).not.toHaveProperty("routes");
    await untilLogged(
      daemon,
      "its listener on this node is on br-blue, and this interface is on br-blue VLAN 7",
    );
    expect((await wantedNow(daemon)).networks[0]).toMatchObject({ bridge: "br-blue", vlan: null });
    expect(client.summary).toEqual(["blue: c1/eth0"]);
    await restart(daemon, "SIGKILL");
    expect((await daemon.cni("ADD", "c2", { config: other })).stdout).toBe(answer.stdout);
    await client.untilWanted(["blue: c1/eth0"]);
  });

  test("is used once the attachments of the first have ended", async ({ daemon }) => {
    const client = listen(daemon);
    const first = withMetadata("blue");
    const other = withMetadata("blue", {}, { bridge: "br-other" });
    await daemon.cni("ADD", "c1", { config: first });
    await daemon.cni("ADD", "c2", { config: other });
    await daemon.cni("DEL", "c1", { config: first });
    expect((await daemon.cni("ADD", "c3", { config: other })).json().routes).toHaveLength(1);
    expect(client.summary).toEqual(["blue: c3/eth0"]);
    expect(client.wanted[0]?.bridge).toBe("br-other");
  });
});

describe("the request of metadata-net", () => {
  test.for<[unknown, string]>([
    [[], "a JSON object"],
    [{ listeners: [], waitMs: 0 }, "applied"],
    [{ applied: 7, listeners: [], waitMs: 0 }, "applied"],
    [{ applied: null, waitMs: 0 }, "listeners"],
    [{ applied: null, listeners: {}, waitMs: 0 }, "listeners"],
    [{ applied: null, listeners: [], waitMs: -1 }, "waitMs"],
    [{ applied: null, listeners: [], waitMs: 60_001 }, "waitMs"],
    [{ applied: null, listeners: [], waitMs: "1" }, "waitMs"],
    [{ applied: null, listeners: [null], waitMs: 0 }, "listeners[0]"],
    [{ applied: null, listeners: [{ state: "up" }], waitMs: 0 }, "listeners[0].network"],
    [{ applied: null, listeners: [{ network: "a", state: "down" }], waitMs: 0 }, "listeners[0].state"],
    [
      { applied: null, listeners: [{ network: "a", state: "failed", problem: 7 }], waitMs: 0 },
      "listeners[0].problem",
    ],
    [{ applied: null, listeners: [], waitMs: 0, more: 1 }, "more"],
  ])("%j is refused, naming %s", async ([body, named], { daemon }) => {
    const answer = await poll(daemon, body);
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: "REQUEST_INVALID", message: expect.stringContaining(named) });
  });

  test("waits for as long as it asks, and gets the same answer again", async ({ daemon }) => {
    const first = await wantedNow(daemon);
    const startMs = performance.now();
    const answer = await poll(daemon, { applied: first.version, listeners: [], waitMs: 300 });
    expect(performance.now() - startMs).toBeGreaterThan(299);
    expect(answer.json()).toEqual(first);
  });

  processTest(
    "may be aborted without a trace, and a stop of the daemon waits for none",
    async ({ daemon }) => {
      const { version } = await wantedNow(daemon);
      const report = { applied: version, listeners: [], waitMs: 60_000 };
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
    },
  );

  processTest("is refused while the state is not open", async ({ daemon }) => {
    const client = listen(daemon);
    await daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    await client.stop();
    await daemon.end("SIGTERM");
    rmSync(join(daemon.state, "holdfast.db"));
    const lost = await TestDaemon.start({ folder: daemon.folder, wait: false });
    onTestFinished(() => lost.end().then(() => {}));
    await until(() => existsSync(daemon.socket), "the daemon to listen");
    const answer = await poll(daemon, { applied: null, listeners: [], waitMs: 300 });
    expect([answer.status, answer.json().code]).toEqual([503, "NOT_READY"]);
    expect((await daemon.post("/v1/rebuild", { empty: true })).status).toBe(200);
    expect((await wantedNow(daemon)).networks).toEqual([]);
  });
});

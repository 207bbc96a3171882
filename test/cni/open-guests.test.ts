import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { closeBridges, PortClient, withMetadata } from "../harness/port-client.ts";
import { pause } from "../harness/wait.ts";
import { addressesOf, errorOf, network, processTest, restart, testWith, until } from "./fixtures.ts";

/*
 * A guest with metadata is not attached where nothing keeps it from the node's own 169.254.169.254: on a bridge that
 * metadata-net has not closed in this boot. The tests play metadata-net.
 */

const hurried = testWith("--metadata-wait-ms", "200");
const patient = testWith("--metadata-wait-ms", "30000");
const ptp = withMetadata("blue", {}, { type: "ptp", bridge: undefined });
const vlan = withMetadata("blue", {}, { vlan: 7, isGateway: true });

function listen(daemon: ServedDaemon, decide?: Parameters<typeof PortClient.start>[1]): PortClient {
  const client = PortClient.start(daemon, decide);
  onTestFinished(() => client.stop());
  return client;
}

async function expectOpen(daemon: ServedDaemon, config: object, device: string): Promise<void> {
  const { code, msg } = errorOf(await daemon.cni("ADD", "open", { config }));
  expect([code, msg]).toEqual([11, expect.stringContaining(`nothing keeps guests behind ${device} from`)]);
}

describe("while metadata-net is away, an ADD", () => {
  hurried.for<[string, object, readonly string[], string]>([
    ["on a new bridge", withMetadata("blue"), [], "br-blue"],
    ["on a new bridge beside a closed one", withMetadata("blue"), ["br-green", "br-blue2"], "br-blue"],
    ["on the bridge plugin's default bridge", withMetadata("blue", {}, { bridge: undefined }), ["br-blue"], "cni0"],
    ["on a new VLAN of a closed bridge that is its gateway", vlan, ["br-blue"], "br-blue.7"],
    ["on a new bridge of Open vSwitch", withMetadata("blue", {}, { type: "ovs" }), [], "br-blue"],
    ["with ptp, whose links nobody knows beforehand", ptp, ["br-blue"], "its link"],
    ["with a plugin that is not known", withMetadata("blue", {}, { type: "odd", bridge: undefined }), [], "its link"],
  ])("%s is refused", async ([, config, closed, device], { daemon }) => {
    closeBridges(daemon, ...closed);
    await expectOpen(daemon, config, device);
    const { stdout } = await daemon.cni("DEL", "open", { config });
    expect(stdout).toBe("");
    // Its definition is known now: it is refused before it takes an address.
    const allocations = async () => (await daemon.get("/v1/allocations")).json().items;
    const before = await allocations();
    await expectOpen(daemon, config, device);
    expect(await allocations()).toEqual(before);
  });

  hurried.for<[string, object, readonly string[]]>([
    ["on a closed bridge", withMetadata("blue"), ["br-blue"]],
    ["on a closed VLAN", vlan, ["br-blue", "br-blue.7"]],
    ["on a VLAN of a closed bridge without a gateway there", withMetadata("blue", {}, { vlan: 7 }), ["br-blue"]],
    ["with macvlan", withMetadata("blue", {}, { type: "macvlan", bridge: undefined }), []],
    ["with SR-IOV", withMetadata("blue", {}, { type: "sriov", vlan: 7, bridge: undefined }), []],
    ["on a network without metadata", network("blue"), []],
  ])("%s is answered", async ([, config, closed], { daemon }) => {
    closeBridges(daemon, ...closed);
    for (const name of ["first", "second"]) addressesOf(await daemon.cni("ADD", name, { config }));
  });

  testWith("--metadata", "off")("is answered where no guest of the node has metadata", async ({ daemon }) => {
    addressesOf(await daemon.cni("ADD", "c1", { config: withMetadata("blue") }));
  });

  hurried("is refused when the run directory was emptied", async ({ daemon }) => {
    closeBridges(daemon, "br-blue");
    addressesOf(await daemon.cni("ADD", "c1", { config: withMetadata("blue") }));
    rmSync(join(daemon.directory, "net"), { recursive: true });
    await expectOpen(daemon, withMetadata("blue"), "br-blue");
  });

  patient("waits for it", async ({ daemon }) => {
    closeBridges(daemon, "br-red");
    const config = withMetadata("blue");
    const first = daemon.cni("ADD", "c1", { config });
    await pause(100);
    listen(daemon);
    addressesOf(await first);
  });

  processTest("on a closed bridge is answered by a restarted daemon", async ({ daemon }) => {
    closeBridges(daemon, "br-blue");
    await restart(daemon, "SIGKILL", ["--metadata-wait-ms", "200"]);
    addressesOf(await daemon.cni("ADD", "c1", { config: withMetadata("blue") }));
    await expectOpen(daemon, withMetadata("green"), "br-green");
  });
});

describe("while metadata-net runs, an ADD on a new bridge", () => {
  hurried("is answered when its port is served", async ({ daemon }) => {
    listen(daemon);
    addressesOf(await daemon.cni("ADD", "c1", { config: withMetadata("blue") }));
  });

  hurried("is refused when its port was not found", async ({ daemon }) => {
    listen(daemon, () => ({ kind: "pending", problem: "there is no port for it yet" }));
    await expectOpen(daemon, withMetadata("blue"), "br-blue");
  });

  patient("waits while its port is still searched for", async ({ daemon }) => {
    let isFound = false;
    const pending = { kind: "pending", problem: "its port is being searched for" } as const;
    listen(daemon, ({ containerId }) => (containerId === "c1" && !isFound ? pending : null));
    const adding = daemon.cni("ADD", "c1", { config: withMetadata("blue") });
    // Longer than an ADD waits that would be answered without.
    await pause(1_000);
    isFound = true;
    // A change of what is wanted makes metadata-net report again.
    addressesOf(await daemon.cni("ADD", "other", { config: withMetadata("green") }));
    addressesOf(await adding);
  });

  hurried("is refused when nothing is heard of its port in time", async ({ daemon }) => {
    const client = listen(daemon, () => new Promise<null>(() => {}));
    await until(() => client.answers.length > 0, "metadata-net to be heard");
    await expectOpen(daemon, withMetadata("blue"), "br-blue");
  });

  hurried("with ptp is answered", async ({ daemon }) => {
    const client = listen(daemon);
    await until(() => client.answers.length > 0, "metadata-net to be heard");
    addressesOf(await daemon.cni("ADD", "c1", { config: ptp }));
  });
});

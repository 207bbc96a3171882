import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { askedWhile, DECOY } from "../metadata-net/decoy.ts";
import type { PortGuest } from "../metadata-net/node.ts";
import { type PythonProcess, startPython } from "../metadata-net/python-process.ts";
import { OvsNode, whoIs, whyNotOvs } from "./ovs-node.ts";

describe.skipIf(whyNotOvs() !== null)("the node's own 169.254.169.254 behind a bridge in userspace", () => {
  let node: OvsNode;
  let served: PortGuest;
  let decoy: PythonProcess;

  beforeAll(async () => {
    node = await OvsNode.start();
    for (const address of ["10.0.0.1/24", "169.254.169.254/32"])
      await node.net.mustRun("ip", ["address", "add", address, "dev", "br-vm"]);
    await node.net.mustRun("ip", ["link", "set", "br-vm", "up"]);
    await node.net.mustRun("ethtool", ["-K", "br-vm", "tx", "off"]);
    const routes = ["default via 10.0.0.1"];
    served = await node.guest("br-vm", { address: "10.0.0.5/24", routes });
    decoy = await startPython(["ip", "netns", "exec", node.net.space as string], DECOY, []);
    expect((await served.ask("/")).body).toBe("NODE-IAM-CREDENTIALS");
    expect(await node.net.wanted(served.on("blue"))).toEqual({});
    expect(await whoIs(served)).toBe("blue");
  });
  afterAll(async () => {
    await decoy.stop();
    expect(await node.stop(), node.net.log).toEqual([]);
  });

  test("answers no guest while metadata-net is stopped, nor when the switch has lost its flows then", async () => {
    const counts = await askedWhile([served], async () => {
      await node.net.endNet("SIGTERM");
      const left = await node.flows();
      expect(left.filter((line) => line.includes("actions=drop")).length).toBeGreaterThan(0);
      expect(left.join()).not.toContain("output:");
      expect(await node.doors()).toEqual([]);
      await pause(2_000);
      await node.ovs.endSwitch("SIGKILL");
      await node.ovs.startSwitch();
      await pause(2_000);
      node.net.startNet();
      await node.net.applied();
      await until(async () => (await whoIs(served, "/latest/", 2)) === "blue", "the guest to be served");
    });
    console.log(JSON.stringify(counts));
    for (const { asked, node: answers } of counts) {
      expect(asked).toBeGreaterThan(10);
      expect(answers).toBe(0);
    }
  });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { requireTool } from "../harness/needs.ts";
import { MetadataNode } from "../metadata-node/metadata-node.ts";
import { mustRun, whyNotReal } from "./containers.ts";

const SERVICE = "169.254.169.254";
const UID = "5d2f8c1a-93b4-4e07-a6d8-0c7e1f2b3a49";

describe.skipIf(whyNotReal() !== null)("a guest with interfaces on two networks", () => {
  let node: MetadataNode;
  beforeAll(async () => {
    node = await MetadataNode.start();
  });
  afterAll(() => node?.stop());

  test("is answered on each as the one VM that it is", async (context) => {
    // With which it asks.
    requireTool(context, "curl", "--version");
    const front = node.network("front");
    const back = node.network("back", { subnets: "10.53.0.0/24" });
    const vm = await node.vm("vm1", front, UID);
    await node.claim("vm1.back", "back", UID);
    const args = "IgnoreUnknown=1;IPAM_CLAIM=default/vm1.back";
    const plugged = await node.containers.cni("ADD", vm.container, vm.namespace, back, args, "eth1");
    expect(plugged.code, plugged.stdout).toBe(0);
    const second = plugged.json().ips[0].address.split("/")[0] as string;
    expect(second).not.toBe(vm.address);

    /** Over this interface alone, so that the answer has no other way back either. */
    const through = async (device: string, other: string, source: string) => {
      const ip = (...words: string[]) => mustRun("ip", ["-n", vm.namespace, ...words]);
      await ip("link", "set", device, "up");
      await ip("link", "set", other, "down");
      await ip("route", "replace", `${SERVICE}/32`, "dev", device, "scope", "link", "src", source);
    };
    for (const [device, other, address] of [
      ["eth0", "eth1", vm.address],
      ["eth1", "eth0", second],
      ["eth0", "eth1", vm.address],
    ] as const) {
      await through(device, other, address);
      const answer = await vm.ask("/openstack/latest/meta_data.json");
      expect(answer.status, `${device}: ${answer.body}; ${node.metadata.log}`).toBe(200);
      expect(JSON.parse(answer.body)).toMatchObject({ uuid: UID, name: "vm1" });
      // The VM's first address, wherever it asks: it is one instance.
      expect((await vm.ask("/latest/meta-data/local-ipv4")).body).toBe(vm.address);
    }

    await node.containers.cni("DEL", vm.container, vm.namespace, back, args, "eth1");
    expect((await vm.ask("/latest/meta-data/local-ipv4")).body, "the first is still served").toBe(vm.address);
    await node.end(vm);
  });
});

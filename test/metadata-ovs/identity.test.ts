import { afterAll, beforeAll, expect, test } from "vitest";
import { requireRoot, requireTool } from "../harness/needs.ts";
import type { PortGuest } from "../metadata-net/node.ts";
import { OvsNode } from "./ovs-node.ts";

/** Two guests with one address and one MAC, the same address in VLAN 7, a link-local one, and one that is not admitted. */
let node: OvsNode;
let guests: Record<"a" | "b" | "c" | "e" | "stranger", PortGuest>;
const GATEWAY = ["default via 10.0.0.1 dev eth0 onlink"];

beforeAll(async () => {
  node = await OvsNode.start();
  const same = { address: "10.0.0.5/24", mac: "02:00:00:00:00:0a", routes: GATEWAY };
  guests = {
    a: await node.guest("br-vm", same),
    b: await node.guest("br-vm", same),
    c: await node.guest("br-vm", {
      ...same,
      mac: "02:00:00:00:00:0c",
      port: ["tag=7"],
      // Its gateway's MAC is nobody's.
      commands: ["neigh replace 10.0.0.1 lladdr 02:de:ad:00:00:01 dev eth0 nud permanent"],
    }),
    e: await node.guest("br-vm", { address: "169.254.10.10/32" }),
    stranger: await node.guest("br-vm", { address: "10.0.0.9/24" }),
  };
  for (const guest of [guests.a, guests.b])
    await guest.run("ip", [
      "neigh",
      "replace",
      "10.0.0.1",
      "lladdr",
      "02:de:ad:00:00:02",
      "dev",
      "eth0",
      "nud",
      "permanent",
    ]);
  const problems = await node.net.wanted(
    ...(["a", "b", "c", "e"] as const).map((name) =>
      guests[name].on(`net-${name}`, { mac: guests[name].mac }),
    ),
  );
  expect(problems).toEqual({});
});

afterAll(async () => {
  expect(await node?.stop()).toEqual([]);
});

const whoIs = async (guest: PortGuest, args: readonly string[] = []) => {
  const { status, echo } = await guest.ask("/latest/", args);
  return { status, network: echo.headers["x-holdfast-network"], claimed: echo.headers["x-holdfast-claimed"] };
};

test.each(["a", "b", "c", "e"] as const)("guest %s gets its own answer", async (name) => {
  expect(await whoIs(guests[name])).toEqual({
    status: 200,
    network: `net-${name}`,
    claimed: guests[name].address,
  });
});
void requireRoot;
void requireTool;

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { startPython } from "../metadata-net/python-process.ts";
import { BalancingNode } from "./balancing-node.ts";
import { type Pod, whyNoOvn, Zone } from "./zone.ts";

// One node: real databases, ovn-northd, ovn-controller and a switch whose ports carry the guests' frames.

const BLUE = "cluster_udn_blue";
const GREEN = "shop_green";

/** One connection: asks on it at once, and again when its input ends. */
const TALK = `
import socket, sys
s = socket.create_connection(("169.254.169.254", int(sys.argv[1])), 10)
def talks():
    s.settimeout(4)
    try:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        return "talks" if s.recv(4096) else "silence"
    except OSError: return "silence"
print(talks(), flush=True)
sys.stdin.read()
print(talks())
`;

let zone: Zone;
let node: BalancingNode;
let guest: Pod;
let backend: Pod;
let twin: Pod;
let other: Pod;
let blue: string;

describe.skipIf(whyNoOvn() !== null)("one node", () => {
  beforeAll(async () => {
    zone = await Zone.start("node-a");
    node = await BalancingNode.start("node-a", zone.central.northbound);
    blue = await zone.network(BLUE, { net: 20 });
    // The same subnet again: networks of tenants overlap.
    const green = await zone.network(GREEN, { net: 20 });
    guest = await zone.pod(blue, "10.20.0.5");
    backend = await zone.pod(blue, "10.20.0.30");
    twin = await zone.pod(green, "10.20.0.5");
    other = await zone.pod(green, "10.20.0.30");
    await zone.answerIn(backend, "blue");
    await zone.answerIn(other, "green");
    await node.want({ [BLUE]: ["10.20.0.30:8080"], [GREEN]: ["10.20.0.30:8080"] });
    await zone.central.settle();
  });
  afterAll(async () => {
    await node?.stop();
    await zone?.stop();
  });

  /** What a guest is answered once the switch has it. */
  async function answered(pod: Pod, expected: string): Promise<void> {
    let last = "";
    await until(
      async () => {
        last = await pod.asks(1);
        return last === expected;
      },
      () => `${expected}; the last answer was ${last}`,
      20_000,
    ).catch(() => expect(last).toBe(expected));
  }

  test("a guest with a default route only is answered by its network's backend, which sees its address", async () => {
    await answered(guest, "src=10.20.0.5 at=blue");
  });

  test("a guest with the same address on another network is answered by that network's backend", async () => {
    await answered(twin, "src=10.20.0.5 at=green");
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? guest : twin).asks(10)));
    expect(answers.filter((_, i) => i % 2 === 1)).toEqual(Array(10).fill("src=10.20.0.5 at=blue"));
    expect(answers.filter((_, i) => i % 2 === 0)).toEqual(Array(10).fill("src=10.20.0.5 at=green"));
  });

  test("a backend's own request is answered by that backend", async () => {
    await answered(backend, "src=169.254.0.5 at=blue");
  });

  test("port security drops requests of a guest that takes a neighbour's address", async () => {
    const thief = await zone.pod(blue, "10.20.0.6");
    await answered(thief, "src=10.20.0.6 at=blue");
    await thief.run("ip", ["address", "add", "10.20.0.5/32", "dev", "eth0"]);
    const { status } = await thief.ask("/", ["--interface", "10.20.0.5", "--max-time", "2"]);
    expect(status).toBe(0);
  });

  test("a guest with only 169.254/16 on link is not served, because nobody answers its ARP request", async () => {
    const onLink = await zone.pod(blue, "10.20.0.7", ["169.254.0.0/16"]);
    await zone.central.settle();
    expect(await onLink.connects()).toBe("timeout");
  });

  test("further ports of the Service lead to its pods, and are cut when they go", async () => {
    const backends = { [BLUE]: ["10.20.0.30:8080"], [GREEN]: ["10.20.0.30:8080"] };
    await node.want(backends, [
      { port: 5000, backends: ["10.20.0.30:8080"] },
      { port: 8443, backends: [] },
    ]);
    await until(async () => (await guest.connects(5000)) === "connected", "port 5000 to be answered");
    const { body } = await guest.ask("http://169.254.169.254:5000/");
    expect(body).toBe("src=10.20.0.5 at=blue");
    expect(await guest.connects(8443)).toBe("refused");
    const talker = await startPython(guest.namespace, TALK, ["5000"]);
    await node.want(backends);
    await until(async () => (await guest.connects(5000)) !== "connected", "port 5000 to be closed");
    expect(await talker.stop()).toBe("talks\nsilence\n");
    await answered(guest, "src=10.20.0.5 at=blue");
  });

  describe("without a ready endpoint on the node", () => {
    test("connections are refused at once, and answered again when there is one", async () => {
      await node.want({ [BLUE]: [], [GREEN]: ["10.20.0.30:8080"] });
      await until(async () => (await guest.connects()) === "refused", "the connection to be refused");
      await answered(twin, "src=10.20.0.5 at=green");
      await node.want({ [BLUE]: ["10.20.0.30:8080"], [GREEN]: ["10.20.0.30:8080"] });
      await answered(guest, "src=10.20.0.5 at=blue");
    });

    test("a row that somebody deletes is back before a guest gives up", async () => {
      await zone.central.nbctl("lb-del", `holdfast_metadata_${blue}`);
      expect(await guest.asks(20)).toBe("src=10.20.0.5 at=blue");
    });
  });

  test("a switch without a router is not served, and is reported", async () => {
    const name = "shop_island";
    const island = await zone.network(name, { net: 22, router: false });
    const lonely = await zone.pod(island, "10.22.0.5");
    const there = await zone.pod(island, "10.22.0.30");
    await zone.answerIn(there, "island");
    await node.want({ [BLUE]: ["10.20.0.30:8080"], [name]: ["10.22.0.30:8080"] });
    await zone.central.settle();
    await until(() => node.report?.problems.length === 1, "the problem to be told");
    expect(node.report?.problems[0]).toMatchObject({ network: name, kind: "no-router" });
    expect(await lonely.connects()).toBe("timeout");
    // The switch itself is well, and a router makes it serve.
    expect((await lonely.ask("http://10.22.0.30:8080/")).body.trim()).toBe("src=10.22.0.5 at=island");
    await zone.router(name, { net: 22 });
    await answered(lonely, "src=10.22.0.5 at=island");
  });

  test("a network whose reference was removed gets no answer, and others are not affected", async () => {
    await node.want({ [GREEN]: ["10.20.0.30:8080"] });
    await until(async () => (await guest.connects()) !== "connected", "the balancer to go");
    await pause(200);
    expect(await guest.connects()).not.toBe("connected");
    await answered(twin, "src=10.20.0.5 at=green");
  });
});

// @ts-nocheck
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { listenerNames } from "../../metadata/net/kernel/names.ts";
import { LISTENER_HEADERS } from "../../metadata/proxy/listener-headers.ts";
import { run } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { type BridgeGuest, batch, NetNode, network } from "./node.ts";
import { startPython } from "./python-process.ts";

const VICTIM = "10.30.0.5";

/**
 * Begins a connection from the victim's address every few milliseconds and keeps each waiting, so that one is under way at
 * whatever moment. At the end of its input it prints how many it began, and how many were answered.
 */
const WAIT_FOR_A_GAP = `
import json, socket, sys, threading, time
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
waiting, tried, answers = [], 0, []
print("waiting", flush=True)
while not done.is_set():
    s = socket.socket(); s.setblocking(False); s.bind((sys.argv[1], 0))
    s.connect_ex(("169.254.169.254", 80)); tried += 1
    waiting.append([s, time.monotonic() + 1, False])
    for one in waiting[:]:
        s, until, sent = one
        try:
            if not sent: s.send(b"GET /thief HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"); one[2] = True
            got = s.recv(4096)
            if got: answers.append(got.decode(errors="replace"))
            until = 0
        except BlockingIOError: pass
        except OSError: until = until if not sent else 0
        if time.monotonic() > until: s.close(); waiting.remove(one)
    time.sleep(0.003)
print(json.dumps({"tried": tried, "answers": answers}))
`;

interface Theft {
  readonly tried: number;
  readonly answers: readonly string[];
}

async function waitForAGap(thief: BridgeGuest): Promise<{ stop: () => Promise<Theft> }> {
  const attack = await startPython(thief.namespace, WAIT_FOR_A_GAP, [VICTIM]);
  return { stop: async () => JSON.parse((await attack.stop()).split("\n").at(-2) ?? "") as Theft };
}

describe.skipIf(whyNotReal() !== null)("rules that somebody flushes", () => {
  let node: NetNode;
  let bridge: string;
  let victim: BridgeGuest;
  let thief: BridgeGuest;
  beforeEach(async () => {
    node = await NetNode.start([], { apart: true });
    bridge = await node.bridge();
    victim = await node.guest(bridge, `${VICTIM}/24`);
    thief = await node.guest(bridge, "10.30.0.6/24");
    expect(await node.wanted(network("blue", bridge, [victim, thief]))).toEqual({ blue: "up" });
    expect((await victim.ask("/")).status).toBe(200);
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  /** The thief takes the victim's address and MAC, and knows the listener's. */
  async function pretend(): Promise<void> {
    const { mac } = listenerNames(node.names, "blue");
    await batch(
      [
        "link set eth0 down",
        `link set eth0 address ${victim.mac}`,
        "link set eth0 up",
        `address add ${VICTIM}/24 dev eth0`,
        "route replace 169.254.0.0/16 dev eth0 scope link",
        `neigh replace 169.254.169.254 lladdr ${mac} dev eth0 nud permanent`,
      ],
      thief.namespace,
    );
  }

  const rulesAreThere = async () =>
    (await node.run("nft", ["-t", "list", "table", "bridge", node.names.table])).code === 0;

  test("let no waiting guest get another's metadata, at any of twenty flushes, and come back", async () => {
    await pretend();
    const waiting = await waitForAGap(thief);
    const flushes = 20;
    for (let count = 0; count < flushes; count += 1) {
      await node.mustRun("nft", ["flush", "ruleset"]);
      await until(rulesAreThere, () => `the rules after flush ${count}; log: ${node.log}`, 20_000);
    }
    const { tried, answers } = await waiting.stop();
    console.log(`${flushes} flushes, ${tried} attempts, ${answers.length} answers`);
    expect(tried).toBeGreaterThan(flushes);
    expect(answers).toEqual([]);
    expect(node.thefts).toBe(0);
    await run("ip", ["-n", thief.namespace, "link", "set", "eth0", "down"]);
    await until(
      async () =>
        (await victim.ask("/", ["--max-time", "2"])).echo.headers[LISTENER_HEADERS.source] === VICTIM,
      "the victim is served again",
      20_000,
    );
  });

  test("leave a listener closed behind its gate while they are missing", async () => {
    await pretend();
    const { link } = listenerNames(node.names, "blue");
    node.process?.child.kill("SIGSTOP");
    try {
      await node.mustRun("nft", ["flush", "ruleset"]);
      const closed = await waitForAGap(thief);
      await pause(2_000);
      const nothing = await closed.stop();
      expect(nothing.tried).toBeGreaterThan(20);
      expect(nothing.answers).toEqual([]);
      expect(node.thefts).toBe(0);
      // What the test could not see otherwise: the attack works where nothing is in its way.
      await node.mustRun("tc", ["qdisc", "delete", "dev", link, "clsact"]);
      const open = await waitForAGap(thief);
      await until(() => node.thefts > 0, "the theft without a gate", 20_000);
      await open.stop();
    } finally {
      node.process?.child.kill("SIGCONT");
    }
    await until(rulesAreThere, () => `the rules; log: ${node.log}`, 20_000);
  });

  test("include the gate, which is restored by the next check", async () => {
    const { link } = listenerNames(node.names, "blue");
    await node.mustRun("tc", ["qdisc", "delete", "dev", link, "clsact"]);
    // Looked at every 30 s, and after a flush.
    await node.mustRun("nft", ["flush", "ruleset"]);
    await until(
      async () =>
        (await node.run("tc", ["filter", "show", "dev", link, "egress"])).stdout.includes("bytecode"),
      () => `the gate; log: ${node.log}`,
      20_000,
    );
    expect((await victim.ask("/")).status).toBe(200);
    // The gate is there before the look has ended that tells of it.
    const said = () => node.log.split("\n").find((one) => one.includes('"what":"link"'));
    await until(
      () => said() !== undefined,
      () => `what was put back; log: ${node.log}`,
      20_000,
    );
    expect(said()).toContain(`"network":"blue"`);
    expect(said()).toContain(`"link":"${link}"`);
  });
});

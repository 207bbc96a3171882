import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { listenTo } from "./frames.ts";
import { batch, NetNode, type PortGuest } from "./node.ts";
import { startPython } from "./python-process.ts";
import { askAs, self } from "./who.ts";

const VICTIM = "10.30.0.5";
/** Of the listener's end, as it is on every node. */
const DOOR_MAC = "02:6d:64:00:00:03";

/**
 * Begins a request every few milliseconds and keeps each waiting, so that one is under way at whatever moment. What
 * fails or takes longer than its patience is tried again when it is to be kept. At the end of its input it waits for
 * what is under way and has begun as many as it should, and prints how many it began, how many had no answer, the
 * answers, and why it tried again.
 */
const ASK_ALL_THE_TIME = `
import json, socket, sys, threading, time
source, target, path, pause, patience = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5])
keep, least, end = sys.argv[6] == "keep", int(sys.argv[7]), float("inf")
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
waiting, tried, lost, answers, again = [], 0, 0, [], {}
def begin():
    s = socket.socket(); s.setblocking(False); s.bind((source, 0)); s.connect_ex((target, 80))
    return s
def retry(one, why):
    global lost
    if not keep: lost += 1; one[0].close(); waiting.remove(one); return
    again[why] = again.get(why, 0) + 1
    one[0].close(); one[:] = [begin(), time.monotonic() + patience, False]
print("asking", flush=True)
while not done.is_set() or waiting or tried < least:
    if done.is_set(): end = min(end, time.monotonic() + 60)
    if (not done.is_set() or tried < least) and len(waiting) < 400:
        waiting.append([begin(), time.monotonic() + patience, False]); tried += 1
    for one in waiting[:]:
        s, until, sent = one
        try:
            if not sent: s.send(f"GET {path} HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n".encode()); one[2] = True
            got = s.recv(4096)
            # It was held up for longer than haproxy waits.
            if got[9:12] == b"408": retry(one, "408"); continue
            if got: answers.append(got.decode(errors="replace")); s.close(); waiting.remove(one); continue
            retry(one, "closed"); continue
        except BlockingIOError: pass
        # 107: it is not connected yet.
        except OSError as error:
            if error.errno != 107: retry(one, error.strerror); continue
        if time.monotonic() < until: continue
        if time.monotonic() > end: keep = False
        retry(one, "late")
    time.sleep(pause)
print(json.dumps({"tried": tried, "lost": lost, "answers": answers, "again": again}))
`;

interface Asked {
  readonly tried: number;
  readonly lost: number;
  readonly answers: readonly string[];
  readonly again: Readonly<Record<string, number>>;
}

async function askAllTheTime(
  guest: PortGuest,
  how: {
    readonly source: string;
    readonly target?: string;
    readonly path: string;
    readonly pause: number;
    readonly patience: number;
    readonly keep?: boolean;
    readonly atLeast?: number;
  },
) {
  const { source, target = "169.254.169.254", path, pause: every, patience, keep, atLeast = 0 } = how;
  const args = [source, target, path, String(every), String(patience), keep ? "keep" : "", String(atLeast)];
  const asking = await startPython(guest.namespace, ASK_ALL_THE_TIME, args);
  return async () => JSON.parse((await asking.stop()).split("\n").at(-2) ?? "") as Asked;
}

describe.skipIf(whyNotReal() !== null)("flushed nftables rules", () => {
  let node: NetNode;
  let victim: PortGuest;
  let thief: PortGuest;
  beforeEach(async () => {
    node = await NetNode.start(["--rate-limit", "0"], { apart: true });
    const bridge = await node.bridge();
    victim = await node.guest(bridge, `${VICTIM}/24`);
    thief = await node.guest(bridge, "10.30.0.6/24");
    // The thief takes the victim's address and MAC, and knows the listener's.
    await batch(
      [
        "link set eth0 down",
        `link set eth0 address ${victim.mac}`,
        "link set eth0 up",
        `address add ${VICTIM}/24 dev eth0`,
        "route replace 169.254.0.0/16 dev eth0 scope link",
        `neigh replace 169.254.169.254 lladdr ${DOOR_MAC} dev eth0 nud permanent`,
        "route add 240.0.0.0/5 via 10.30.0.1 dev eth0",
        `neigh replace 10.30.0.1 lladdr ${DOOR_MAC} dev eth0 nud permanent`,
      ],
      thief.namespace,
    );
    expect(await node.wanted(victim.on("blue"))).toEqual({});
    expect(await askAs(victim)).toBe(self(victim));
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  const rulesAreThere = async () =>
    (await node.run("nft", ["-t", "list", "table", "netdev", node.names.table])).code === 0;

  /** The namespaces that metadata-net makes on a node of its own have names there alone. */
  const insideListener = () => {
    const mounts = `--mount=/proc/${node.process?.child.pid}/ns/mnt`;
    return ["nsenter", mounts, "ip", "netns", "exec", node.names.namespace];
  };

  test("let no other guest in during a hundred flushes, and fail no request", async () => {
    const shown = await node.mustRun("nft", ["list", "map", "netdev", node.names.table, "address"]);
    const [direct] = /24[0-7]\.[\d.]+/.exec(shown.stdout) ?? [];
    expect(direct).toBeDefined();
    const flushes = 100;
    const attempt = { source: VICTIM, path: "/thief", pause: 0.01, patience: 1, atLeast: flushes };
    const thefts = [
      await askAllTheTime(thief, attempt),
      await askAllTheTime(thief, { ...attempt, target: direct as string }),
    ];
    const asked = await askAllTheTime(victim, {
      source: VICTIM,
      path: "/victim",
      pause: 0.02,
      patience: 5,
      keep: true,
    });
    for (let count = 0; count < flushes; count += 1) {
      await node.mustRun("nft", ["flush", "ruleset"]);
      await until(rulesAreThere, () => `the rules after flush ${count}; log: ${node.log}`, 20_000);
    }
    for (const stop of thefts) expect((await stop()).answers).toEqual([]);
    expect(node.thefts).toBe(0);
    const { tried, lost, answers, again } = await asked();
    console.log(`${flushes} flushes; the victim asked ${tried} times, tried again:`, again);
    expect({ tried, lost }).toEqual({ tried: answers.length, lost: 0 });
    const subject = self(victim).split(" ")[0] as string;
    expect(answers.filter((answer) => !answer.includes("200 OK") || !answer.includes(subject))).toEqual([]);
  }, 120_000);

  test("leave the listener closed while they are missing", async () => {
    const heard = await listenTo("eth0", insideListener());
    node.process?.child.kill("SIGSTOP");
    try {
      await node.mustRun("nft", ["flush", "ruleset"]);
      const attempt = { source: VICTIM, path: "/thief", pause: 0.01, patience: 1, atLeast: 20 };
      const stops = [await askAllTheTime(thief, attempt), await askAllTheTime(victim, attempt)];
      await pause(1_500);
      for (const stop of stops) expect((await stop()).answers).toEqual([]);
      expect(node.thefts).toBe(0);
      expect(await heard.stop()).toEqual([]);
    } finally {
      node.process?.child.kill("SIGCONT");
    }
    await until(rulesAreThere, () => `the rules; log: ${node.log}`, 20_000);
    await until(async () => (await askAs(victim)) === self(victim), "the victim's answer", 20_000);
  });

  test("are not the only protection: frames without the secret MAC are dropped", async () => {
    const before = node.echoes;
    const outer = `${node.names.linkPrefix}main`;
    // What no guest can do: the link is put on the bridge.
    const bridge = (await node.mustRun("ip", ["-o", "link", "show", "type", "bridge"])).stdout.split(": ")[1];
    await node.mustRun("ip", ["link", "set", outer, "master", bridge as string]);
    const heard = await listenTo("eth0", insideListener());
    const attempt = { source: VICTIM, target: "240.0.0.0", path: "/thief", pause: 0.01, patience: 1 };
    const stop = await askAllTheTime(thief, attempt);
    await pause(500);
    expect((await stop()).answers).toEqual([]);
    // They do arrive there, so that the test could fail.
    expect((await heard.stop()).length).toBeGreaterThan(0);
    expect([node.thefts, node.echoes]).toEqual([0, before]);
    await node.mustRun("ip", ["link", "set", outer, "nomaster"]);
  });

  test("are restored whatever part of them was changed, and each time that is counted", async () => {
    const { table } = node.names;
    const list = async () => {
      const { stdout } = await node.mustRun("nft", ["list", "table", "netdev", table]);
      return stdout
        .replaceAll(/counter packets \d+ bytes \d+/g, "")
        .split("\n")
        .sort();
    };
    const before = await list();
    const own = before.map((line) => /chain (in_\w+) /.exec(line)?.[1]).find((name) => name !== undefined);
    const changes = [
      ["flush", "table", "netdev", table],
      ["flush", "chain", "netdev", table, "guest"],
      ["flush", "map", "netdev", table, "address"],
      ["delete", "chain", "netdev", table, own as string],
      ["insert", "rule", "netdev", table, "guest", "accept"],
      ["add", "element", "netdev", table, "port", "{ 240.1.2.3 : 0xf0010203 }"],
      ["delete", "table", "netdev", table],
    ];
    const repairs = () => node.log.split("had been changed by somebody else").length - 1;
    for (const [count, words] of changes.entries()) {
      await node.mustRun("nft", words);
      // At once, when it is heard of; else with the next look at everything.
      await until(
        () => repairs() > count,
        () => `a repair after nft ${words.join(" ")}; log: ${node.log}`,
      );
      expect(await list(), words.join(" ")).toEqual(before);
      expect(repairs()).toBe(count + 1);
      expect(await askAs(victim)).toBe(self(victim));
    }
  });
});

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HAPROXY_ACCOUNT, isUser } from "../../platform/groups.ts";
import { METADATA_NET_SETTINGS } from "../../platform/settings/metadata-net.ts";
import { run } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { load } from "./load.ts";
import { NetNode, type PortGuest } from "./node.ts";
import { startPython } from "./python-process.ts";
import { askAs, self } from "./who.ts";

/**
 * Of its own packets to the service, nothing but the begin of a connection and its request leave the guest: no other
 * acknowledgement.
 */
const DEAF = `table inet deaf {
	chain output {
		type filter hook output priority 0; policy accept;
		ip daddr 169.254.169.254 tcp flags & (syn | psh) == 0 drop
	}
}
`;

/** Requests on ever new connections for five seconds, each of which is forgotten as soon as haproxy has closed it. */
const ORPHANS = `
import select, socket, struct, sys, threading, time
print("sending", flush=True)
end, sent, waiting = time.monotonic() + 5, 0, {}
poll = select.epoll()
while time.monotonic() < end:
    while len(waiting) < 50:
        s = socket.socket(); s.setblocking(False)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.connect_ex(("169.254.169.254", 80))
        waiting[s.fileno()] = [s, False, time.monotonic()]; poll.register(s, select.EPOLLIN | select.EPOLLOUT)
    for number, event in poll.poll(0.05):
        one = waiting[number]
        try:
            if not one[1]:
                one[0].send(b"GET / HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n"); one[1] = True; sent += 1
                poll.modify(number, select.EPOLLIN); continue
            if one[0].recv(65536): continue
        except OSError: pass
        poll.unregister(number); one[0].close(); del waiting[number]
    for number, one in list(waiting.items()):
        if time.monotonic() - one[2] > 1: poll.unregister(number); one[0].close(); del waiting[number]
sys.stdin.read(); print(sent)
`;

/** As nobody, connects as often as it can, and keeps what it gets. */
const CONNECT = `
import collections, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
counts, held = collections.Counter(), []
for n in range(int(sys.argv[2])):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(sys.argv[1]); held.append(s); counts["connected"] += 1
    except OSError as e: counts[e.strerror] += 1
print(dict(counts), flush=True)
sys.stdin.read()
`;

/** In /proc/net/tcp: FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING. */
const CLOSING = /^ *\d+: \S+ \S+ (04|05|09|0B) /gm;

describe.skipIf(whyNotReal() !== null)("what a guest or a local user can take from other guests", () => {
  let node: NetNode;
  let vm: PortGuest;
  beforeEach(async () => {
    node = await NetNode.start(["--rate-limit", String(METADATA_NET_SETTINGS.rateLimit.default)], {
      apart: true,
    });
    vm = await node.guest(null, "10.30.0.5/24");
    expect(await node.wanted(vm.on("blue"))).toEqual({});
    expect(await askAs(vm)).toBe(self(vm));
  });
  afterEach(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  /** Connections in the listener's namespace that nobody has any more, and for which the guest has not ended them. */
  async function orphans(): Promise<number> {
    const mounts = `--mount=/proc/${node.process?.child.pid}/ns/mnt`;
    const inside = ["ip", "netns", "exec", node.names.namespace, "cat", "/proc/net/tcp"];
    const { stdout } = await run("nsenter", [mounts, ...inside]);
    return [...stdout.matchAll(CLOSING)].length;
  }

  test("a guest that acknowledges nothing leaves at most some thousand connections behind", async () => {
    const thief = await node.guest(null, "10.30.0.6/24");
    expect(await node.wanted(vm.on("blue"), thief.on("red"))).toEqual({});
    expect(await askAs(thief)).toBe(self(thief));
    expect((await thief.run("nft", ["-f", "-"], DEAF)).code).toBe(0);
    const thieving = await startPython(thief.namespace, ORPHANS, []);
    let most = 0;
    const until = performance.now() + 5_000;
    const waits: number[] = [];
    while (performance.now() < until) {
      most = Math.max(most, await orphans());
      const before = performance.now();
      expect(await askAs(vm)).toBe(self(vm));
      waits.push(performance.now() - before);
    }
    const sent = Number((await thieving.stop()).split("\n").at(-2));
    console.log(`requests without acknowledgement: ${sent}; orphans: ${most}; victim: ${waits.length} answers`);
    expect(sent).toBeGreaterThan(300);
    expect(most).toBeLessThan(1_000);
  });

  test("a local user cannot connect to haproxy's waiting room, and slows no guest", async () => {
    const paths = ["wait.sock", "stats.sock", "master.sock"].map((name) => join(node.runDir, name));
    const running = await load(vm, "keep");
    for (const path of paths) {
      const connecting = await startPython(null, CONNECT, [path, "8000"]);
      expect(await connecting.stop()).toBe("{'Permission denied': 8000}\n");
    }
    expect((await running.stop()).bad.filter((one) => one !== 429)).toEqual([]);
    // haproxy itself can: guests wait there while the server is away.
    await until(async () => (await vm.ask("/")).status === 200, "the load to be forgotten");
    await node.stopUpstream();
    const waiting = vm.ask("/");
    await pause(1_000);
    await node.startUpstream();
    expect((await waiting).status).toBe(200);
  });

  test("haproxy runs as a user of its own where there is one, and says what to do where there is none", async ({
    skip,
  }) => {
    if (isUser(HAPROXY_ACCOUNT)) skip();
    expect(node.log).toContain("make install adds the user holdfast-haproxy");
    await node.endNet("SIGTERM");
    const directory = mkdtempSync(join(tmpdir(), "holdfast-user-"));
    try {
      // Seen by this node alone.
      const lines = { passwd: "x:64999:64999::/:/usr/sbin/nologin", group: "x:64999:" };
      for (const [file, line] of Object.entries(lines)) {
        writeFileSync(join(directory, file), `${readFileSync(`/etc/${file}`, "utf8")}${HAPROXY_ACCOUNT}:${line}\n`);
        await node.mustRun("mount", ["--bind", join(directory, file), `/etc/${file}`]);
      }
      const before = node.log.length;
      node.startNet();
      expect(await node.applied()).toEqual({});
      expect(await askAs(vm)).toBe(self(vm));
      expect(node.log.slice(before)).not.toContain("make install");
      const ids = node.haproxyPids().map((pid) => {
        const status = readFileSync(`/proc/${pid}/status`, "utf8");
        return ["Uid", "Gid"].map((key) => new RegExp(`^${key}:\\s+(\\d+)`, "m").exec(status)?.[1]).join();
      });
      expect(ids.sort()).toEqual(["0,0", "64999,64999"]);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

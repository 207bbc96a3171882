import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { HOLDFAST, newDirectory, run } from "../harness/daemon.ts";
import { skippedFor } from "../harness/needs.ts";
import { Ovs } from "../harness/ovs/ovs.ts";

/** `holdfast metadata-net --probe`: what a node can do, before anything is switched on. */

const reason = skippedFor(process.getuid?.() === 0 ? null : "not root");

let directory: string;
beforeAll(() => {
  directory = newDirectory();
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

interface Found {
  readonly items: { readonly name: string; readonly ok: boolean; readonly notes: readonly string[] }[];
  readonly served: boolean;
}

/** With programs of a directory before those of the machine. */
async function probe(programs: Readonly<Record<string, string>> = {}, args: readonly string[] = []) {
  const first = join(directory, Object.keys(programs).join("-") || "none");
  const made = Object.entries(programs);
  if (made.length > 0) await run("mkdir", ["-p", first]);
  for (const [name, text] of made) {
    writeFileSync(join(first, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(first, name), 0o755);
  }
  const answer = await run(process.execPath, [HOLDFAST, "metadata-net", "--probe", "-o", "json", ...args], {
    PATH: `${first}:${process.env.PATH}`,
  });
  const found = JSON.parse(answer.stdout) as Found;
  const part = (name: string) => found.items.find((one) => one.name === name);
  return { code: answer.code, found, part };
}

test.skipIf(reason !== null)("this machine can serve guests with a host-side link: exit code 0", async () => {
  const { code, found, part } = await probe();
  expect(part("haproxy")).toMatchObject({ ok: true });
  expect(part("ingress")).toMatchObject({ ok: true });
  expect({ code, served: found.served }).toEqual({ code: 0, served: true });
});

test.skipIf(reason !== null)("nothing of a probe is left on the machine", async () => {
  // In a namespace of its own, where nobody else makes links and tables meanwhile.
  const look = "ip -o link; nft list ruleset; ls /run/netns | sort";
  const command = `${process.execPath} ${HOLDFAST} metadata-net --probe --run-dir ${join(directory, "net")}`;
  const script = `mount -t tmpfs tmpfs /run; mkdir -p /run/netns; ${look}; echo ---; ${command} >&2; ${look}`;
  const { code, stdout, stderr } = await run("unshare", ["--net", "--mount", "sh", "-ec", script]);
  const [before, after] = stdout.split("---\n");
  expect({ code, stderr, after }).toMatchObject({ code: 0, after: before });
  expect((await run("ls", [join(directory, "net")])).code).not.toBe(0);
});

test.skipIf(reason !== null)("what is missing is named, and the exit code is 1", async () => {
  const noForward = await probe({ nft: "text=$(cat); case $text in *fwd*) exit 1 ;; *) exit 0 ;; esac" });
  expect(noForward.part("ingress")).toMatchObject({
    ok: false,
    notes: [expect.stringContaining("NFT_FWD_NETDEV")],
  });
  const noNamespaces = await probe({
    haproxy: 'echo "HAProxy version 2.8.1 2023/07/03"; echo "Feature list : -NS +POLL"',
  });
  expect(noNamespaces.part("haproxy")).toMatchObject({
    ok: false,
    notes: [expect.stringContaining("USE_NS")],
  });
  expect(noNamespaces).toMatchObject({ code: 1, found: { served: false } });
  const old = await probe({
    haproxy: 'echo "HA-Proxy version 2.4.22 2023/02/14"; echo "Feature list : +NS"',
  });
  expect(old.part("haproxy")).toMatchObject({
    ok: false,
    notes: [expect.stringContaining("older than 2.6")],
  });
});

test.skipIf(reason !== null)(
  "Open vSwitch and OVN's database of the node are asked; a node without them serves all others",
  async () => {
    const without = await probe({}, [
      "--ovsdb-socket",
      join(directory, "none"),
      "--ovn-northbound",
      join(directory, "none"),
    ]);
    for (const name of ["openflow", "ovn"]) expect(without.part(name)).toMatchObject({ ok: false });
    expect(without.code).toBe(0);
    const ovs = await Ovs.database();
    try {
      // Any database of that protocol listens alike.
      const found = await probe({}, ["--ovsdb-socket", ovs.socket, "--ovn-northbound", ovs.socket]);
      for (const name of ["openflow", "ovn"]) expect(found.part(name)).toMatchObject({ ok: true });
    } finally {
      await ovs.stop();
    }
    const off = await probe({}, ["--ovsdb-socket", "off", "--ovn-northbound", "off"]);
    expect(off.found.items.map(({ name }) => name)).toEqual(["haproxy", "ingress", "bridge"]);
  },
);

test.skipIf(reason !== null)("a wrong setting is refused as by the process itself", async () => {
  const { code, stderr } = await run(process.execPath, [HOLDFAST, "metadata-net", "--probe", "--rate-limit", "3"]);
  expect(code).not.toBe(0);
  expect(stderr).toContain("at least 60 requests");
});

/** docs/operations.md, "Copies that you made yourself", step by step. */
import { cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { StandaloneNode } from "../faults/standalone-node.ts";
import { attachedTo, expectSound } from "../faults/truth.ts";
import { forgetBoot, network, run, type TestDaemon } from "../harness/daemon.ts";
import { codeBlocks } from "../harness/documents.ts";
import { until } from "../harness/wait.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/24" });

async function add(daemon: TestDaemon, ...ids: string[]): Promise<void> {
  for (const id of ids) expect((await daemon.cni("ADD", id, { config: CONFIG })).code).toBe(0);
}

const WAYS = {
  "a backup, in an emptied directory": { what: "backup", isEmptied: true, isRebooted: false },
  "a backup, in an emptied directory after a reboot": { what: "backup", isEmptied: true, isRebooted: true },
  "a database with its log": { what: "database", isEmptied: true, isRebooted: false },
  "a database with its log after a reboot": { what: "database", isEmptied: true, isRebooted: true },
  "a whole directory": { what: "directory", isEmptied: true, isRebooted: false },
  "a whole directory over what is there": { what: "directory", isEmptied: false, isRebooted: false },
} as const;

test.each(Object.entries(WAYS))(
  "%s: the daemon names the command that goes on with it",
  async (_way, { what, isEmptied, isRebooted }) => {
    const node = new StandaloneNode();
    const first = await node.daemon();
    await add(first, "a", "b");
    const copy = node.path("copy");
    mkdirSync(copy);
    if (what === "backup") expect(await first.cli("backup", join(copy, "holdfast.db"))).toMatchObject({ code: 0 });
    // What a snapshot of the file system has, while the daemon runs.
    else
      for (const name of readdirSync(first.state))
        if (what === "directory" ? name !== "spool" : /^holdfast\.db(-wal)?$/.test(name))
          cpSync(join(first.state, name), join(copy, name), { recursive: true });
    await add(first, "c", "d");

    const [script] = codeBlocks("docs/operations.md", "Copies that you made yourself") as [string];
    const [stop, copying, start, status] = script.trim().split("\n") as [string, string, string, string];
    expect(stop).toMatch(/^systemctl stop holdfast/);
    await first.end();
    if (isEmptied) for (const name of readdirSync(first.state)) rmSync(join(first.state, name), { recursive: true });
    if (isRebooted) forgetBoot(node.directory);
    const paths = copying.replaceAll("/var/backups/copy", copy).replaceAll("/var/lib/holdfast", first.state);
    expect(await run("bash", ["-euc", paths])).toMatchObject({ code: 0 });
    expect(start).toMatch(/^systemctl start holdfast/);
    const daemon = await node.daemon({ wait: false });
    await until(async () => (await daemon.get("/healthz").catch(() => null))?.status === 200, "the socket");
    const named = await daemon.cli(...(/^holdfast (\w+)/.exec(status)?.[1] ?? "").split(" "));
    const command = /holdfast (rebuild --from \S+?),/.exec(named.stdout + named.stderr)?.[1] as string;
    expect(command, named.stdout + named.stderr).toContain(first.state);
    expect(await daemon.cli(...command.split(" "))).toMatchObject({ code: 0 });
    expect(await attachedTo(daemon, "blue")).toEqual(["a", "b"]);
    await expectSound(daemon);
    await daemon.end("SIGKILL");
    expect(await attachedTo(await node.daemon(), "blue")).toEqual(["a", "b"]);
  },
);

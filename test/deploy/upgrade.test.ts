import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { network, newFolder, run, TestDaemon } from "../harness/daemon.ts";
import { codeBlocks } from "../harness/documents.ts";

const STATE = readFileSync(join(import.meta.dirname, "state/0.1.0.sql"), "utf8");

test("a state of 0.1.0 is taken up: claims, containers and definitions are what they were", async () => {
  const folder = newFolder();
  mkdirSync(join(folder, "state"), { mode: 0o700 });
  const db = new Database(join(folder, "state/holdfast.db"));
  db.exec(STATE);
  // The machine has not been restarted since.
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  db.prepare("UPDATE attachments SET boot_id = ?").run(bootId);
  db.close();
  writeFileSync(join(folder, "state/holdfast.initialised"), "");

  const daemon = await TestDaemon.start({ folder });
  try {
    const { stdout } = await daemon.cli("list");
    expect(stdout).toMatch(/^blue +10\.8\.0\.1\/24 +container web \(eth0\) .* Bound/m);
    expect(stdout).toMatch(/^red +10\.9\.0\.217\/24 +claim default\/vm1 .* Bound/m);
    expect(await daemon.cli("check")).toMatchObject({ code: 0 });

    // The definition has the flag of persistence where 0.1.0 took it, and 10.8.0.1 is still in use.
    const red = { ...network("red"), ipam: { type: "holdfast-ipam" } };
    const vm = await daemon.cni("ADD", "vm1-run2", { config: red, args: "IPAM_CLAIM=default/vm1" });
    expect(vm.json().ips).toEqual([{ address: "10.9.0.217/24" }]);
    const blue = network("blue", { subnets: "10.8.0.0/24" });
    expect((await daemon.cni("ADD", "new", { config: blue })).json().ips).toEqual([
      { address: "10.8.0.3/24" },
    ]);
  } finally {
    await daemon.stop();
  }
});

test("docs/upgrade.md: the way back moves everything of the journal away, also after a crash, and leaves the spool", async () => {
  const daemon = await TestDaemon.start();
  try {
    await daemon.cni("ADD", "web", { config: network("blue", { subnets: "10.8.0.0/24" }) });
    await daemon.end("SIGKILL");
    const [, move] = codeBlocks("docs/upgrade.md", "Back to the release before") as [string, string];
    const script = move.replaceAll("/var/lib/holdfast", daemon.state);
    expect(await run("bash", ["-euc", script])).toMatchObject({ code: 0 });
    expect(readdirSync(daemon.state).sort()).toEqual(["newer", "reserve", "spool"]);
    const moved = ["holdfast.db", "holdfast.db-wal", "holdfast.initialised", "holdfast.open"];
    expect(readdirSync(join(daemon.state, "newer")).sort()).toEqual(moved);
  } finally {
    await daemon.stop();
  }
});

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadNetSettings } from "../../guests/settings.ts";
import { HAPROXY_ACCOUNT } from "../../platform/groups.ts";
import { HOLDFAST, newDirectory, run } from "../harness/daemon.ts";

const UNITS = join(import.meta.dirname, "../../deploy/systemd");

test("the systemd unit is valid", async () => {
  const directory = newDirectory();
  try {
    const unit = readFileSync(join(UNITS, "holdfast-metadata-net.service"), "utf8");
    const copy = join(directory, "holdfast-metadata-net.service");
    writeFileSync(copy, unit.replaceAll("/usr/local/bin/holdfast", HOLDFAST));
    const { code, stdout, stderr } = await run("systemd-analyze", ["verify", "--man=no", copy]);
    const complaints = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("holdfast-metadata-net"));
    expect(complaints).toEqual([]);
    expect(code).toBe(0);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test("the unit closes what was closed before a reboot, before all that the daemon's unit comes before", () => {
  const [unit, daemon] = ["holdfast-metadata-net.service", "holdfast.service"].map((name) =>
    readFileSync(join(UNITS, name), "utf8"),
  ) as [string, string];
  const before = (text: string) => /^Before=(.+)$/m.exec(text)?.[1];
  expect(before(unit)).toBe(before(daemon));
  // What comes before the main process ends before the unit counts as started.
  expect(unit).toMatch(/^ExecStartPre=-\/usr\/local\/bin\/holdfast metadata-net --close$/m);
  const { state } = loadNetSettings({}, {});
  expect(`/var/lib/${/^StateDirectory=(.+)$/m.exec(unit)?.[1]}`).toBe(state);
});

test("a restart of the unit ends metadata-net so that its listener goes on, and a stop so that it ends it", () => {
  const unit = readFileSync(join(UNITS, "holdfast-metadata-net.service"), "utf8");
  expect(unit).toMatch(/^RestartKillSignal=SIGKILL$/m);
  expect(unit).toMatch(/^KillMode=process$/m);
  expect(unit).not.toMatch(/^KillSignal=|^ExecStop/m);
});

test("metadata-net's default sockets and haproxy's group are those of the other units", () => {
  const { metadataSocket, socket, runDir } = loadNetSettings({}, {});
  expect(readFileSync(join(UNITS, "holdfast-metadata.socket"), "utf8")).toContain(`ListenStream=${metadataSocket}\n`);
  const sysusers = readFileSync(join(UNITS, "holdfast.sysusers"), "utf8");
  expect(sysusers).toContain(`\nu ${HAPROXY_ACCOUNT} `);
  expect(readFileSync(join(UNITS, "holdfast-metadata.socket"), "utf8")).toContain(`SocketGroup=${HAPROXY_ACCOUNT}\n`);
  // Both are in the daemon's directory, which stays when the daemon goes.
  const daemon = readFileSync(join(UNITS, "holdfast.service"), "utf8");
  expect(daemon).toContain("RuntimeDirectory=holdfast\n");
  expect(daemon).toContain("RuntimeDirectoryPreserve=yes\n");
  for (const path of [socket, runDir]) expect(path).toMatch(/^\/run\/holdfast\//);
});

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadNetSettings } from "../../guests/settings.ts";
import { HOLDFAST, newFolder, run } from "../harness/daemon.ts";

const UNITS = join(import.meta.dirname, "../../deploy/systemd");

test("the systemd unit is valid", async () => {
  const folder = newFolder();
  try {
    const unit = readFileSync(join(UNITS, "holdfast-metadata-net.service"), "utf8");
    const copy = join(folder, "holdfast-metadata-net.service");
    writeFileSync(copy, unit.replace("/usr/local/bin/holdfast", HOLDFAST));
    const { code, stdout, stderr } = await run("systemd-analyze", ["verify", "--man=no", copy]);
    const complaints = `${stdout}${stderr}`
      .split("\n")
      .filter((line) => line.includes("holdfast-metadata-net"));
    expect(complaints).toEqual([]);
    expect(code).toBe(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a restart of the unit ends metadata-net so that it leaves its rules, and a stop so that it takes them away", () => {
  const unit = readFileSync(join(UNITS, "holdfast-metadata-net.service"), "utf8");
  expect(unit).toMatch(/^RestartKillSignal=SIGKILL$/m);
  expect(unit).toMatch(/^KillMode=process$/m);
  expect(unit).not.toMatch(/^KillSignal=|^ExecStop/m);
});

test("metadata-net's default sockets are those of the other units", () => {
  const { metadataSocket, socket, runDir } = loadNetSettings({}, {});
  expect(readFileSync(join(UNITS, "holdfast-metadata.socket"), "utf8")).toContain(
    `ListenStream=${metadataSocket}\n`,
  );
  // Both are in the daemon's folder, which stays when the daemon goes.
  const daemon = readFileSync(join(UNITS, "holdfast.service"), "utf8");
  expect(daemon).toContain("RuntimeDirectory=holdfast\n");
  expect(daemon).toContain("RuntimeDirectoryPreserve=yes\n");
  for (const path of [socket, runDir]) expect(path).toMatch(/^\/run\/holdfast\//);
});

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { HOLDFAST, newDirectory, run } from "../harness/daemon.ts";

const UNITS = join(import.meta.dirname, "../../deploy/systemd");
let directory: string;
beforeAll(() => {
  directory = newDirectory();
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

test("the service and socket units are valid", async () => {
  const service = readFileSync(join(UNITS, "holdfast-metadata.service"), "utf8");
  writeFileSync(
    join(directory, "holdfast-metadata.service"),
    service.replace("/usr/local/bin/holdfast", HOLDFAST).replace("/usr/local/lib/holdfast/bin", UNITS),
  );
  writeFileSync(
    join(directory, "holdfast-metadata.socket"),
    readFileSync(join(UNITS, "holdfast-metadata.socket"), "utf8"),
  );
  const files = ["service", "socket"].map((kind) => join(directory, `holdfast-metadata.${kind}`));
  const { code, stdout, stderr } = await run("systemd-analyze", ["verify", "--man=no", ...files]);
  const complaints = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("holdfast"));
  // The daemon's unit is not installed here.
  expect(complaints.filter((line) => !line.includes("holdfast.service"))).toEqual([]);
  expect(code).toBe(0);
});

test("the units' paths are the server's defaults", () => {
  const { metadataSocket, state } = loadMetadataSettings({}, {});
  expect(readFileSync(join(UNITS, "holdfast-metadata.socket"), "utf8")).toContain(`ListenStream=${metadataSocket}\n`);
  expect(readFileSync(join(UNITS, "holdfast-metadata.service"), "utf8")).toContain(
    `StateDirectory=${state.replace("/var/lib/", "")}\n`,
  );
  // Both sockets are in the daemon's directory, which must not go with the daemon.
  expect(readFileSync(join(UNITS, "holdfast.service"), "utf8")).toContain("RuntimeDirectoryPreserve=yes\n");
});

import { expect, test } from "vitest";
import { loadControllerSettings } from "../../controller/settings.ts";
import { loadDaemonSettings } from "../../daemon/settings.ts";
import { loadNetSettings } from "../../guests/settings.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";
import { HOLDFAST, run } from "../harness/daemon.ts";

/** What `holdfast --help` says to export, and what belongs to a daemon or to the plugin binary. */
const EXPORTED = {
  HOLDFAST_SOCKET: "/run/other.sock",
  HOLDFAST_KUBECONFIG: "/etc/kubeconfig",
  HOLDFAST_CONFIG: "/dev/null",
  HOLDFAST_SHIM_CONF: "/etc/shim.conf",
};

test.each([
  ["daemon", loadDaemonSettings],
  ["controller", loadControllerSettings],
  ["metadata", loadMetadataSettings],
  ["metadata-net", loadNetSettings],
] as const)("%s starts with variables exported that are meant for the command line", (_name, load) => {
  expect(() => load({}, EXPORTED)).not.toThrow();
});

test("the controller refuses a variable with an unknown name", () => {
  expect(() => loadControllerSettings({}, { HOLDFAST_SWEEPGRACE: "1" })).toThrow("HOLDFAST_SWEEPGRACE");
});

test("holdfast controller gets past its settings", async () => {
  const args = ["controller", "--kubeconfig", "/nonexistent"];
  const { stderr } = await run(process.execPath, [HOLDFAST, ...args], EXPORTED);
  expect(stderr).toContain("/nonexistent");
  expect(stderr).not.toContain("unknown setting");
});

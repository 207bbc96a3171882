import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { network, run, TestDaemon } from "../harness/daemon.ts";
import { codeBlocks } from "../harness/documents.ts";

test("docs/upgrade.md: the way back moves everything of the journal away, also after a crash, and leaves the spool", async () => {
  const daemon = await TestDaemon.start();
  try {
    await daemon.cni("ADD", "web", { config: network("blue", { subnets: "10.8.0.0/24" }) });
    await daemon.end("SIGKILL");
    const [, move] = codeBlocks("docs/upgrade.md", "Back to the release before") as [string, string];
    const script = move.replaceAll("/var/lib/holdfast", daemon.state);
    expect(await run("bash", ["-euc", script])).toMatchObject({ code: 0 });
    expect(readdirSync(daemon.state).sort()).toEqual(["newer", "reserve", "spool"]);
    const moved = [
      "holdfast.answered",
      "holdfast.answered-copy",
      "holdfast.db",
      "holdfast.db-wal",
      "holdfast.pages",
    ];
    expect(readdirSync(join(daemon.state, "newer")).sort()).toEqual(moved);
  } finally {
    await daemon.stop();
  }
});

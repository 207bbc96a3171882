import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";
import { parseScript, runScript, transcriptIn } from "./script.ts";

// The scripts say what is tested. UPDATE_SCRIPTS=1 writes what was seen into them: read the difference before you keep it.
const FOLDER = join(import.meta.dirname, "scripts");
const daemons: TestDaemon[] = [];

afterAll(() => Promise.all(daemons.map((daemon) => daemon.stop())));

test.each(readdirSync(FOLDER).sort())("%s", async (name) => {
  const path = join(FOLDER, name);
  const text = readFileSync(path, "utf8");
  const daemon = await TestDaemon.start({ args: ["--node", "node1", "--log-level", "error"] });
  daemons.push(daemon);
  const seen = await runScript(parseScript(text), daemon);
  if (process.env.UPDATE_SCRIPTS) writeFileSync(path, seen + filesIn(text));
  else expect(seen).toBe(transcriptIn(text));
});

function filesIn(text: string): string {
  const start = text.search(/^-- .+ --$/m);
  return start < 0 ? "" : `\n${text.slice(start)}`;
}

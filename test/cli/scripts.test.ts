import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";
import { parseScript, runScript, transcriptIn } from "./script.ts";

// The scripts say what is tested. UPDATE_SCRIPTS=1 writes what was seen into them: read the difference before you keep
// it.
const DIRECTORY = join(import.meta.dirname, "scripts");
const daemons: TestDaemon[] = [];

afterAll(() => Promise.all(daemons.map((daemon) => daemon.stop())));

test.each(readdirSync(DIRECTORY).sort())("%s", async (name) => {
  const path = join(DIRECTORY, name);
  const text = readFileSync(path, "utf8");
  const daemon = await TestDaemon.start({ args: ["--node", "node1", "--log-level", "error"] });
  daemons.push(daemon);
  const seen = await runScript(parseScript(text), daemon);
  if (process.env.UPDATE_SCRIPTS) writeFileSync(path, seen + filesIn(text));
  else expect(seen).toBe(transcriptIn(text));
});

test("the examples of docs/choosing-addresses.md are what the scripts show", () => {
  const unmarked = (text: string) => text.replaceAll(/^! /gm, "");
  const seen = readdirSync(DIRECTORY).map((name) => unmarked(readFileSync(join(DIRECTORY, name), "utf8")));
  const page = readFileSync(join(import.meta.dirname, "../../docs/choosing-addresses.md"), "utf8");
  const examples = [...page.matchAll(/^```console\n(.*?)^```/gms)].map(([, example]) => example ?? "");
  expect(examples.length).toBeGreaterThan(1);
  for (const example of examples)
    expect(
      seen.some((script) => script.includes(example)),
      example,
    ).toBe(true);
});

function filesIn(text: string): string {
  const start = text.search(/^-- .+ --$/m);
  return start < 0 ? "" : `\n${text.slice(start)}`;
}

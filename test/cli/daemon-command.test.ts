import { readFileSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SETTING_NAMES } from "../../daemon/config.ts";
import { HOLDFAST, newFolder, run, TestDaemon, until } from "../harness/daemon.ts";

function kebab(name: string): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

test("every setting of the daemon is a flag, and every flag a setting", async () => {
  const { stdout } = await run(process.execPath, [HOLDFAST, "daemon", "--help"]);
  const flags = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag as string);
  const ours = ["--config", "--help", "--version", "--timeout"];
  expect(flags.filter((flag) => !ours.includes(flag)).sort()).toEqual(SETTING_NAMES.map(kebab).sort());
});

test("flags reach the daemon, and win over its file", async () => {
  const folder = newFolder();
  const config = join(folder, "daemon.yaml");
  writeFileSync(config, "node: from-file\nlogLevel: error\n");
  const daemon = await TestDaemon.start({ folder, args: ["--config", config, "--log-level", "info"] });
  // What the daemon has printed may come after its first answer.
  await until(() => daemon.log.includes('"node":"from-file"'), "the node's name in the log");
  await daemon.stop();
});

test("a setting that cannot be used exits 2", async () => {
  const { code, stderr } = await run(process.execPath, [HOLDFAST, "daemon", "--add-deadline-ms", "soon"]);
  expect(code).toBe(2);
  expect(stderr).toContain("addDeadlineMs");
});

test("the command line does not carry what only the daemon needs", () => {
  const bundle = readFileSync(HOLDFAST, "utf8");
  const required = new Set(
    [...bundle.matchAll(/\b(?:require|import)\("([^"]+)"\)/g)].map((match) => match[1] as string),
  );
  const outside = [...required].filter((name) => !isBuiltin(name));
  expect(outside).toEqual(["../lib/yaml.cjs"]);
  for (const daemons of ["better_sqlite3", "fastify", "prom-client"]) expect(bundle).not.toContain(daemons);
});

// Writes the lists of settings in docs/ from platform/settings/, where they are defined. The tidy test says when to.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { build } from "esbuild";

process.chdir(dirname(import.meta.dirname));
const { outputFiles } = await build({
  entryPoints: ["test/tidy/settings-docs.ts"],
  bundle: true,
  write: false,
  platform: "node",
  format: "esm",
  logLevel: "warning",
});
const { SETTINGS_PAGES, withSettings } = await import(
  `data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`
);
for (const page of new Set(Object.values(SETTINGS_PAGES))) {
  const text = readFileSync(page, "utf8");
  const written = withSettings(page, text);
  if (written !== text) writeFileSync(page, written);
}

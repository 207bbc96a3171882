// `make docs`: the Markdown of this repository as a site in dist/docs, with search, which asks nobody on the network.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

const ROOT = join(import.meta.dirname, "..");
const OUT = "dist/docs";
/** The generator and its packages are here, and copies of the pages: Vite finds packages from where a page is. */
const WORK = join(ROOT, "build/docs-site");
const SITE = join(ROOT, "tools/docs-site");

const run = (command, words, cwd) =>
  execFileSync(command, words, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });

const pages = run("git", ["ls-files", "*.md", "docs/pictures"], ROOT).trim().split("\n");
for (const directory of ["docs", "bench", "deploy", "examples"])
  rmSync(join(WORK, directory), { recursive: true, force: true });
mkdirSync(WORK, { recursive: true });
cpSync(SITE, WORK, { recursive: true });
cpSync(join(ROOT, ".npmrc"), join(WORK, ".npmrc"));
for (const page of pages) {
  mkdirSync(dirname(join(WORK, page)), { recursive: true });
  cpSync(join(ROOT, page), join(WORK, page));
}
console.error("npm ci: the site generator, some 125 packages, 100 MB");
run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], WORK);
console.error(run(process.execPath, ["node_modules/vitepress/bin/vitepress.js", "build", "."], WORK).trim());
rmSync(join(ROOT, OUT), { recursive: true, force: true });
cpSync(join(WORK, ".vitepress/dist"), join(ROOT, OUT), { recursive: true });
console.log(
  `${OUT}: to read it, python3 -m http.server --bind 127.0.0.1 --directory ${OUT} 8000, and http://127.0.0.1:8000`,
);

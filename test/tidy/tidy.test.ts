import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import { IPAM_KEYS } from "../../ipam/definition/definition-keys.ts";
import { REFUSALS } from "../../ipam/refusals.ts";
import { VERSION } from "../../version.ts";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

function tracked(pattern: RegExp): string[] {
  const out = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  return out.split("\n").filter((file) => pattern.test(file) && existsSync(join(ROOT, file)));
}

const sources = tracked(
  /^(cli|controller|daemon|admin|cni|metadata|identity|claims|store|kube|platform|ipam|cni-shim|version)[/.].*\.?ts$/,
).filter((file) => file.endsWith(".ts"));

function importsOf(file: string): string[] {
  const paths = [...read(file).matchAll(/(?:from|import\()\s*"(\.[^"]+)"/g)].map(
    (match) => match[1] as string,
  );
  return paths.map((path) => relative(ROOT, join(ROOT, dirname(file), path)));
}

test("every source file is imported by another, or is an entry", () => {
  const entries = new Set(["cli/main.ts", "daemon/main.ts"]);
  const all = [...sources, ...tracked(/^(test|bench)\/.*\.(ts|mjs)$/)];
  const imported = new Set(all.flatMap(importsOf));
  expect(sources.filter((file) => !entries.has(file) && !imported.has(file))).toEqual([]);
});

test("ipam/ reads no clock, no random source, no environment and does no I/O", () => {
  const banned =
    /Date\.now|new Date\b|performance\.|Math\.random|randomUUID|process\.|node:(fs|net|http|os|child_process)|setTimeout|setInterval/;
  const guilty = sources.filter(
    (file) => file.startsWith("ipam/") && banned.test(withoutComments(read(file))),
  );
  expect(guilty).toEqual([]);
});

test("wall clocks are read in named places only: for people to read, never to decide", () => {
  const allowed = new Set([
    "platform/time.ts",
    "store/journal/database-file.ts",
    "daemon/spool.ts",
    "admin/cluster/cluster-admin.ts",
  ]);
  const guilty = sources.filter(
    (file) =>
      !file.startsWith("cli/") &&
      !allowed.has(file) &&
      /Date\.now|new Date\(\)/.test(withoutComments(read(file))),
  );
  expect(guilty).toEqual([]);
});

test("files stay short enough to read", () => {
  const LINES_MAX = 340;
  const long = [...sources, ...tracked(/^cni-shim\/.*\.[ch]$/)].filter(
    (file) => read(file).split("\n").length > LINES_MAX,
  );
  expect(long).toEqual([]);
});

test("every refusal is used and has a paragraph in docs/operations.md", () => {
  const code = sources
    .filter((file) => file !== "ipam/refusals.ts")
    .map(read)
    .join("\n");
  const docs = read("docs/operations.md");
  for (const name of Object.keys(REFUSALS)) {
    expect(code.includes(`"${name}"`), `${name} is never used`).toBe(true);
    expect(docs.includes(`### ${name}\n`), `${name} has no paragraph`).toBe(true);
  }
});

test("every metric, setting and route is documented", () => {
  const docs = read("docs/operations.md");
  const metricSources = ["daemon/metrics.ts", "controller/metrics.ts", "metadata/server/server-metrics.ts"]
    .map(read)
    .join("\n");
  const settingSources = ["daemon/config.ts", "controller/config.ts", "metadata/server/settings.ts"]
    .map(read)
    .join("\n");
  const metrics = [...metricSources.matchAll(/name: "(holdfast_\w+)"/g)].map((match) => match[1] as string);
  const settings = [...settingSources.matchAll(/^ {2}(\w+): .*(?:default|optional)\(/gm)].map(
    (match) => match[1] as string,
  );
  const routes = [...read("admin/routes.ts").matchAll(/server\.\w+(?:<[^(]*>)?\("(\/[^"]+)"/g)].map(
    (match) => match[1] as string,
  );
  expect(metrics.length).toBeGreaterThan(5);
  expect(settings.length).toBeGreaterThan(5);
  expect(routes.length).toBeGreaterThan(8);
  for (const name of [...metrics, ...settings, ...routes])
    expect(docs, `${name} is not in docs/operations.md`).toContain(`\`${name}\``);
});

test("every configuration key is documented in docs/cni.md", () => {
  const docs = read("docs/cni.md");
  for (const key of IPAM_KEYS) expect(docs, `${key} is not in docs/cni.md`).toContain(`\`${key}\``);
});

test("versions agree, and the changelog knows this one", () => {
  expect(VERSION).toBe(JSON.parse(read("package.json")).version);
  expect(read("CHANGELOG.md")).toContain(`## ${VERSION}`);
});

test("dependencies are pinned exactly", () => {
  const { dependencies, devDependencies } = JSON.parse(read("package.json"));
  const loose = Object.entries({ ...dependencies, ...devDependencies }).filter(
    ([, version]) => !/^\d+\.\d+\.\d+$/.test(version as string),
  );
  expect(loose).toEqual([]);
});

test("links in the documentation lead somewhere", () => {
  const broken = tracked(/\.md$/).flatMap((file) =>
    [...read(file).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)/g)]
      .map((match) => match[1] as string)
      .filter((target) => !existsSync(join(ROOT, dirname(file), target)))
      .map((target) => `${file}: ${target}`),
  );
  expect(broken).toEqual([]);
});

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
}

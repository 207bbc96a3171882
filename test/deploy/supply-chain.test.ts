import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";

// What of others is shipped is known, named with its licence, and comes from the packages that the lock file names.

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** CycloneDX 1.5, the part that is used. */
const purl = z.string().regex(/^pkg:(npm|generic)\/(%40[\w.-]+\/)?[\w.-]+@[\w.+-]+$/);
const licence = z.union([
  z.strictObject({ license: z.strictObject({ id: z.string().regex(/^[\w.+-]+$/) }) }),
  z.strictObject({ expression: z.string() }),
]);
const component = z.strictObject({
  type: z.enum(["application", "library"]),
  "bom-ref": purl,
  group: z.string().startsWith("@").optional(),
  name: z.string().min(1),
  version: z.string().regex(/^\d/),
  description: z.string().optional(),
  hashes: z
    .array(z.strictObject({ alg: z.literal("SHA-512"), content: z.string().regex(/^[0-9a-f]{128}$/) }))
    .optional(),
  licenses: z.array(licence).min(1).optional(),
  purl,
});
const bom = z.strictObject({
  bomFormat: z.literal("CycloneDX"),
  specVersion: z.literal("1.5"),
  serialNumber: z.string().regex(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/),
  version: z.literal(1),
  metadata: z.strictObject({ component }),
  components: z.array(component).min(1),
  dependencies: z.array(z.strictObject({ ref: purl, dependsOn: z.array(purl) })),
});

test("the SBOM is one, and each of its references leads somewhere", () => {
  const { metadata, components, dependencies } = bom.parse(JSON.parse(read("dist/sbom.cdx.json")));
  const refs = [metadata.component, ...components].map((one) => one["bom-ref"]);
  expect(new Set(refs).size).toBe(refs.length);
  expect(dependencies.map(({ ref }) => ref).sort()).toEqual([...refs].sort());
  for (const { dependsOn } of dependencies) for (const ref of dependsOn) expect(refs).toContain(ref);
  for (const { licenses } of components) expect(licenses).toBeDefined();
});

test("every package that the sources import is in it, as the lock file has it, and no tool of the build", () => {
  const { components } = bom.parse(JSON.parse(read("dist/sbom.cdx.json")));
  const { dependencies, devDependencies } = JSON.parse(read("package.json"));
  const { packages } = JSON.parse(read("package-lock.json"));
  const named = new Map(components.map((one) => [one.group ? `${one.group}/${one.name}` : one.name, one]));
  for (const name of Object.keys(dependencies)) {
    const { version, integrity } = packages[`node_modules/${name}`];
    const sha512 = Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex");
    expect(named.get(name), name).toMatchObject({ version, hashes: [{ content: sha512 }] });
  }
  // ajv is what fastify has, and the tests have it too.
  const tools = Object.keys(devDependencies).filter((name) => packages[`node_modules/${name}`].dev === true);
  expect(tools.length).toBeGreaterThan(5);
  for (const name of tools) expect(named.has(name), name).toBe(false);
  for (const name of [`node-linux-${process.arch}`, "sqlite", "glibc"])
    expect(named.has(name), name).toBe(true);
});

test("nothing is in the bundles that it does not name", () => {
  const { components } = bom.parse(JSON.parse(read("dist/sbom.cdx.json")));
  const names = new Set(components.map((one) => (one.group ? `${one.group}/${one.name}` : one.name)));
  const bundles = execFileSync("sh", ["-c", "cat dist/lib/*.cjs"], {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  // esbuild names each file of others beside its code, where names are kept.
  const files = [...bundles.matchAll(/"node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//g)].map(
    ([, name]) => name as string,
  );
  expect(files).toContain("fastify");
  for (const name of new Set(files)) expect(names).toContain(name);
});

test("each has its licence among the notices", () => {
  const { components } = bom.parse(JSON.parse(read("dist/sbom.cdx.json")));
  const notices = read("dist/THIRD-PARTY-NOTICES");
  const sections = notices.split(/^={78}\n/m).slice(1);
  for (const { group, name, version } of components) {
    const title = `${group ? `${group}/` : ""}${name} ${version} (`;
    const section = sections.find((one) => one.startsWith(title));
    expect(section, title).toBeDefined();
    expect((section as string).length, title).toBeGreaterThan(title.length + 60);
  }
});

test("only the bundler runs an install script of its own", () => {
  const lock: { packages: Record<string, { hasInstallScript?: true }> } = JSON.parse(
    read("package-lock.json"),
  );
  const scripts = Object.keys(lock.packages).filter((path) => lock.packages[path]?.hasInstallScript);
  // esbuild's only checks that its binary, which another package of the lock file brings, can run.
  expect(scripts).toEqual(["node_modules/esbuild"]);
});

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import { expect, test } from "vitest";

// What of others is shipped is known, named with its licence, and comes from the packages that the lock file names.

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

interface Component {
  readonly "bom-ref": string;
  readonly group?: string;
  readonly name: string;
  readonly version: string;
  readonly licenses?: readonly object[];
}

interface Bom {
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const matching = (pattern: RegExp) => ({ type: "string", pattern: pattern.source });
/** With these properties and no other. */
const exactly = (required: object, optional: object = {}) => ({
  type: "object",
  properties: { ...required, ...optional },
  required: Object.keys(required),
  additionalProperties: false,
});
const listOf = (items: object, minItems = 0) => ({ type: "array", items, minItems });

const text = matching(/./);
const purl = matching(/^pkg:(npm|generic)\/(%40[\w.-]+\/)?[\w.-]+@[\w.+-]+$/);
const licence = {
  anyOf: [exactly({ license: exactly({ id: matching(/^[\w.+-]+$/) }) }), exactly({ expression: text })],
};
const component = exactly(
  { type: { enum: ["application", "library"] }, "bom-ref": purl, name: text, version: matching(/^\d/), purl },
  {
    group: matching(/^@/),
    description: text,
    hashes: listOf(exactly({ alg: { const: "SHA-512" }, content: matching(/^[0-9a-f]{128}$/) })),
    licenses: listOf(licence, 1),
  },
);
/** CycloneDX 1.5, the part that is used. */
const isBom = new Ajv({ allErrors: true }).compile<Bom>(
  exactly({
    bomFormat: { const: "CycloneDX" },
    specVersion: { const: "1.5" },
    serialNumber: matching(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/),
    version: { const: 1 },
    metadata: exactly({ component }),
    components: listOf(component, 1),
    dependencies: listOf(exactly({ ref: purl, dependsOn: listOf(purl) })),
  }),
);

function readBom(): Bom {
  const bom: unknown = JSON.parse(read("dist/sbom.cdx.json"));
  if (!isBom(bom)) throw new Error(JSON.stringify(isBom.errors, null, 2));
  return bom;
}

test("the SBOM is one, and each of its references leads somewhere", () => {
  const { metadata, components, dependencies } = readBom();
  const refs = [metadata.component, ...components].map((one) => one["bom-ref"]);
  expect(new Set(refs).size).toBe(refs.length);
  expect(dependencies.map(({ ref }) => ref).sort()).toEqual([...refs].sort());
  for (const { dependsOn } of dependencies) for (const ref of dependsOn) expect(refs).toContain(ref);
  for (const { licenses } of components) expect(licenses).toBeDefined();
});

test("every package that the sources import is in it, as the lock file has it, and no tool of the build", () => {
  const { components } = readBom();
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
  for (const name of [`node-linux-${process.arch}`, "sqlite", "glibc"]) expect(named.has(name), name).toBe(true);
});

test("nothing is in the bundles that it does not name", () => {
  const { components } = readBom();
  const names = new Set(components.map((one) => (one.group ? `${one.group}/${one.name}` : one.name)));
  const bundles = execFileSync("sh", ["-c", "cat dist/lib/*.cjs"], {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  // esbuild names each file of others beside its code, where names are kept.
  const files = [...bundles.matchAll(/"node_modules\/((?:@[\w.-]+\/)?[\w.-]+)\//g)].map(([, name]) => name as string);
  expect(files).toContain("fastify");
  for (const name of new Set(files)) expect(names).toContain(name);
});

test("each has its licence among the notices", () => {
  const { components } = readBom();
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
  const { packages }: { packages: Record<string, object> } = JSON.parse(read("package-lock.json"));
  // By what is installed: the lock file has what the registry said of it on the day on which somebody wrote it.
  const installed = Object.keys(packages).filter((path) => path !== "" && existsSync(join(ROOT, path, "package.json")));
  expect(installed.length).toBeGreaterThan(100);
  const scripts = installed.filter((path) => {
    const { scripts = {}, gypfile = existsSync(join(ROOT, path, "binding.gyp")) } = JSON.parse(
      read(join(path, "package.json")),
    );
    return gypfile || ["preinstall", "install", "postinstall"].some((one) => Object.hasOwn(scripts, one));
  });
  // esbuild's only checks that its binary, which another package of the lock file brings, can run.
  expect(scripts).toEqual(["node_modules/esbuild"]);
});

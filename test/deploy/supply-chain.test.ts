import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { newFolder, run } from "../harness/daemon.ts";

// What of others is shipped is known, named with its licence, and compiled here from the sources that the lock file names.

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
  for (const name of Object.keys(devDependencies)) expect(named.has(name), name).toBe(false);
  for (const name of ["sqlite", "glibc"]) expect(named.has(name), name).toBe(true);
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

test("SQLite is compiled here: its install asks nobody for a binary that somebody else made", async () => {
  const asked: string[] = [];
  const cache = newFolder();
  const server = createServer((request, answer) => {
    asked.push(request.url ?? "");
    answer.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const makefile = execFileSync("make", ["-n", "-W", "package.json", "node_modules/.installed"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  const settings = /^(.*)npm install /m.exec(makefile)?.[1] ?? "";
  const fetch = (environment: string) =>
    run(
      "sh",
      [
        "-c",
        `cd ${ROOT}/node_modules/better-sqlite3 && ${environment} exec ${process.execPath} ../prebuild-install/bin.js --verbose`,
      ],
      {
        npm_config_better_sqlite3_binary_host: `http://127.0.0.1:${port}`,
        npm_config_cache: cache,
      },
    );
  try {
    expect((await fetch(settings)).code).not.toBe(0);
    expect(asked).toEqual([]);
    // Without what the Makefile sets, it asks.
    await fetch("");
    expect(asked).not.toEqual([]);
  } finally {
    server.close();
    rmSync(cache, { recursive: true, force: true });
  }
});

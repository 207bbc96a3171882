import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { read, tracked } from "./tracked.ts";

const ROOT = join(import.meta.dirname, "../..");
const PAGE = read("docs/bounds.md");
const PRODUCT = tracked(
  /^(admin|claims|cli|cni|cni-shim|controller|daemon|guests|identity|imports|ipam|kube|metadata|networks|platform|store|ui)\/.*\.tsx?$/,
);

const PLUGIN = tracked(/^cni-shim\/.*\.c$/);

/** What makes something of a text, a file, a stream, a directory, the environment or the output of a command. */
const READING = new RegExp(
  [
    /JSON\.parse\(/,
    /parseBoundedJson\(/,
    /from "yaml"/,
    /readFile(Sync)?\(/,
    /readBounded\(/,
    /readSync\(/,
    /readdir(Sync)?\(/,
    /readlinkSync\(/,
    /execFile\(/,
    /\bspawn(Sync)?\(/,
    /\bcreateServer\(/,
    /\.json\(\)/,
    /\.getReader\(/,
    /process\.env\b/,
    /\.on\("data"/,
    /for await \(const chunk/,
    /parseAs:/,
    /bodyLimit/,
    /await open\(/,
    /createInterface/,
    /setEncoding/,
    /loadFromFile/,
  ]
    .map(({ source }) => source)
    .join("|"),
);

/** Likewise in the plugin binary. */
const READING_IN_C = /\b(read|recv|readdir|getenv|open|fopen|readlink|getline)\(/;

/** A file's name in a sentence of the page. */
const isNamed = (name: string) => PAGE.includes(`\`${name}\``);

test("docs/bounds.md names every file that reads a text, a file or a stream, and no others that are not there", () => {
  const readers = [
    ...PRODUCT.filter((file) => READING.test(read(file))),
    ...PLUGIN.filter((file) => READING_IN_C.test(read(file))),
  ];
  expect(readers.length).toBeGreaterThan(50);
  expect(readers.filter((file) => !isNamed(file))).toEqual([]);
  const named = [...PAGE.matchAll(/`([\w-]+(?:\/[\w-]+)+\.(?:tsx?|c))`/g)].map(([, file]) => file as string);
  expect(named.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test("docs/bounds.md names every annotation that is read", () => {
  const keys = PRODUCT.flatMap((file) =>
    [
      ...read(file).matchAll(/(?:ANNOTATION\w*|\w+_ANNOTATIONS?) =\s*(\[[^\]]*\]|\{[^}]*\}|"[^"]*"|`[^`]*`);?/g),
    ].flatMap(([, value]) => [...(value as string).matchAll(/["`]([^"`]+)["`]/g)].map(([, key]) => key as string)),
  ).map((key) => key.replace(/^\$\{GROUP\}/, "ipam.holdfast.dev").replace(/^\$\{CAPI_GROUP\}/, "cluster.x-k8s.io"));
  expect(keys.length).toBeGreaterThan(20);
  expect([...new Set(keys)].filter((key) => !isNamed(key))).toEqual([]);
});

test("docs/bounds.md names every view of an object", () => {
  const views = PRODUCT.filter((file) => /\bfunction project[A-Z]\w*\(object/.test(read(file)));
  expect(views.filter((file) => !isNamed(file))).toEqual([]);
});

test("every line of docs/bounds.md says who writes, what is read of it, the test and the file", () => {
  const sections = PAGE.split(/^## /m).filter((one) => /^(Objects|Requests)/.test(one));
  const lines = sections.flatMap((one) => one.split(/^- /m).slice(1)).map((one) => one.split("\n\n")[0] as string);
  expect(lines.length).toBeGreaterThan(30);
  for (const line of lines) {
    const parts = line.replace(/\s+/g, " ").split("; ");
    expect(parts.length, line).toBeGreaterThanOrEqual(5);
    const [, test] = /\[test\]\(\.\.\/(test\/[^)]+)\)/.exec(line) ?? [];
    expect(test !== undefined && existsSync(join(ROOT, test)), line).toBe(true);
  }
});

test("every line of docs/bounds.md has a reader in the table of what is taken meanwhile, or parses nothing", () => {
  const table = /^## While a text is read$[\s\S]*?(?=^## )/m.exec(PAGE)?.[0] ?? "";
  const files = (text: string) => [...text.matchAll(/`([\w-]+(?:\/[\w-]+)+\.(?:ts|c))`/g)].map(([, file]) => file);
  const measured = new Set(files(table));
  const sections = PAGE.split(/^## /m).filter((one) => /^(Objects|Requests)/.test(one));
  const lines = sections.flatMap((one) => one.split(/^- /m).slice(1));
  const others = lines.filter((line) => !files(line).some((file) => measured.has(file)));
  // The plugin binary, heads, which Node reads, and those of 512 bytes that the relay reads where they lie.
  expect(others.filter((line) => !/`(cni-shim\/|platform\/listeners\/|metadata\/relay\/)/.test(line))).toEqual([]);
});

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
  readonly [limit: string]: unknown;
}

/** Paths at which the API server would take anything, however long. */
function unbounded(schema: Schema, path: string): string[] {
  const { type, properties = {}, items, additionalProperties } = schema;
  const own =
    (type === "string" && schema.maxLength === undefined && schema.enum === undefined) ||
    (type === "array" && schema.maxItems === undefined) ||
    ((additionalProperties !== undefined || schema["x-kubernetes-preserve-unknown-fields"] === true) &&
      schema.maxProperties === undefined);
  return [
    ...(own ? [path] : []),
    ...Object.entries(properties).flatMap(([name, one]) => unbounded(one, `${path}.${name}`)),
    ...(items === undefined ? [] : unbounded(items, `${path}[]`)),
    ...(additionalProperties === undefined ? [] : unbounded(additionalProperties, `${path}.*`)),
  ];
}

test("every text, list and map in our definitions has a longest", () => {
  const files = tracked(/^deploy\/crds\/(?!kustomization).*\.yaml$/);
  expect(files).toHaveLength(3);
  for (const file of files) {
    for (const version of parse(read(file)).spec.versions) {
      const { spec, status } = version.schema.openAPIV3Schema.properties;
      expect([...unbounded(spec, "spec"), ...unbounded(status, "status")], file).toEqual([]);
    }
  }
});

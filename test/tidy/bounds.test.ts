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

/** What makes something of a text, a file, a stream or the output of a command. */
const READING = new RegExp(
  [
    /JSON\.parse\(/,
    /parseBoundedJson\(/,
    /from "yaml"/,
    /readFile(Sync)?\(/,
    /readBounded\(/,
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

/** A file's name in a sentence of the page. */
const isNamed = (name: string) => PAGE.includes(`\`${name}\``);

test("docs/bounds.md names every file that reads a text, a file or a stream, and no others that are not there", () => {
  const readers = PRODUCT.filter((file) => READING.test(read(file)));
  expect(readers.length).toBeGreaterThan(50);
  expect(readers.filter((file) => !isNamed(file))).toEqual([]);
  const named = [...PAGE.matchAll(/`([\w-]+(?:\/[\w-]+)+\.ts)`/g)].map(([, file]) => file as string);
  expect(named.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test("docs/bounds.md names every annotation that is read", () => {
  const keys = PRODUCT.flatMap((file) =>
    [
      ...read(file).matchAll(
        /(?:ANNOTATION\w*|\w+_ANNOTATIONS?) =\s*(\[[^\]]*\]|\{[^}]*\}|"[^"]*"|`[^`]*`);?/g,
      ),
    ].flatMap(([, value]) =>
      [...(value as string).matchAll(/["`]([^"`]+)["`]/g)].map(([, key]) => key as string),
    ),
  ).map((key) =>
    key.replace(/^\$\{GROUP\}/, "ipam.holdfast.dev").replace(/^\$\{CAPI_GROUP\}/, "cluster.x-k8s.io"),
  );
  expect(keys.length).toBeGreaterThan(20);
  expect([...new Set(keys)].filter((key) => !isNamed(key))).toEqual([]);
});

test("docs/bounds.md names every view of an object", () => {
  const views = PRODUCT.filter(
    (file) => /export function project[A-Z]\w*\(/.test(read(file)) && /^kube\/views\//.test(file),
  );
  expect(views.filter((file) => !isNamed(file))).toEqual([]);
});

test("every line of docs/bounds.md says who writes, what is read of it, the test and the file", () => {
  const sections = PAGE.split(/^## /m).filter((one) => /^(Objects|Requests)/.test(one));
  const lines = sections
    .flatMap((one) => one.split(/^- /m).slice(1))
    .map((one) => one.split("\n\n")[0] as string);
  expect(lines.length).toBeGreaterThan(30);
  for (const line of lines) {
    const parts = line.replace(/\s+/g, " ").split("; ");
    expect(parts.length, line).toBeGreaterThanOrEqual(5);
    const [, test] = /\[test\]\(\.\.\/(test\/[^)]+)\)/.exec(line) ?? [];
    expect(test !== undefined && existsSync(join(ROOT, test)), line).toBe(true);
  }
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

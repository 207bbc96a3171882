import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readManifestText } from "../../cli/manifests/documents.ts";
import { parseShowStat } from "../../guests/haproxy/command-socket.ts";
import { readLinks } from "../../guests/kernel/links.ts";
import { parseBoundedJson } from "../../ipam/definition/bounded-json.ts";
import { parseBody } from "../../kube/http/answer-body.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import { readPool } from "../../kube/views/whereabouts.ts";
import { readBounded } from "../../platform/files.ts";
import { expectMeanwhile, keptOf } from "./measure.ts";
import { SHAPES } from "./shapes.ts";

/** A file, a body or a stream. */
const BYTES_MAX = 1_000_000;

let file = "";
beforeAll(() => {
  file = join(mkdtempSync(join(tmpdir(), "holdfast-bounds-")), "file");
});
afterAll(() => rmSync(join(file, ".."), { recursive: true }));

const inFile = (read: (path: string) => unknown) => (text: string) => {
  writeFileSync(file, text);
  return read(file);
};

/** The readers of files, bodies and streams. What they keep is tested beside each of them. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  "JSON of a request": (text) => parseBoundedJson(text, 4 << 20),
  "an answer of the API server": (text) => parseBody(text, 200),
  "a pool of whereabouts": (text) =>
    readPool({ ...JSON.parse(`{"spec":{"range":"10.0.0.0/8","allocations":${text}}}`) }),
  "the text of a file": inFile((path) => readBounded(path, BYTES_MAX).toString()),
  "a kubeconfig": inFile(loadKubeConfig),
  "a manifest": (text) => [...readManifestText(text)],
  "links of a network namespace": readLinks,
  "statistics of haproxy": parseShowStat,
};

const SHAPES_READ = ["nested lists", "empty objects", "texts", "wide text", "escapes", "keys"] as const;
/** YAML of 1 MB takes seconds: the shape that costs most of it. */
const SHAPES_OF: Readonly<Record<string, readonly (keyof typeof SHAPES)[]>> = {
  "a kubeconfig": ["nested lists"],
  "a manifest": ["nested lists"],
};

test.each(Object.keys(READERS))("%s: what is taken meanwhile is in the table", (name) => {
  const read = READERS[name] as (text: string) => unknown;
  for (const shape of SHAPES_OF[name] ?? SHAPES_READ) {
    // Dropped at once: what is kept of it is tested elsewhere.
    const reading = keptOf(
      (salt) => SHAPES[shape](BYTES_MAX, salt),
      (text) => void read(text),
      1,
    );
    expect(reading.textBytes).toBeGreaterThan(BYTES_MAX / 2);
    expectMeanwhile(name, reading, shape);
  }
});

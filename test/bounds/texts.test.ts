import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { JsonObjects } from "../../guests/ovs/ovsdb-connection.ts";
import { readPodNetworks } from "../../identity/sources/ovn/pod-networks.ts";
import { parseBoundedJson } from "../../ipam/definition/bounded-json.ts";
import { parsePassed } from "../../ipam/definition/definition-keys.ts";
import { ListStream } from "../../kube/http/list-stream.ts";
import { WatchStream } from "../../kube/http/watch-stream.ts";
import { leanView } from "../../kube/lean-view.ts";
import { parseContentReference } from "../../kube/views/content-annotations.ts";
import { statusAddresses } from "../../kube/views/held-addresses.ts";
import { claimsNamedBy, readNetworkSelection } from "../../kube/views/network-selection.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { readPublishedSpace } from "../../kube/views/published-space.ts";
import { readRequestedAddresses } from "../../kube/views/requested-addresses.ts";
import { readPool } from "../../kube/views/whereabouts.ts";
import { readNadConfig } from "../../networks/nad-reading.ts";
import { readSharedWith } from "../../networks/network-owner.ts";
import { NetworkReservations } from "../../networks/network-reservations.ts";
import { readBounded } from "../../platform/files.ts";
import { expectMeanwhile, expectProportion, keptOf } from "./measure.ts";
import { ANNOTATIONS_BYTES_MAX, OBJECT_BYTES_MAX, objectWith } from "./objects.ts";
import { joined, SHAPES } from "./shapes.ts";

const STATUS = "k8s.v1.cni.cncf.io/network-status";
const blue = readNadConfig(
  JSON.stringify({
    cniVersion: "1.0.0",
    name: "blue",
    type: "bridge",
    ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/16" },
  }),
  "blue",
);

const reservations = (text: string) => {
  if (blue.kind !== "ours") throw new Error("expected a definition");
  const lists = new NetworkReservations();
  const annotations = { "ipam.holdfast.dev/reservations": text };
  lists.set("blue", { metadata: { name: "blue", uid: "u", resourceVersion: "1", annotations } });
  try {
    return [lists, lists.within(blue.definition)];
  } catch (error) {
    return [lists, (error as Error).message];
  }
};
const published = (text: string) =>
  readPublishedSpace({
    apiVersion: "ipam.holdfast.dev/v1alpha1",
    kind: "IPNetwork",
    metadata: { name: "blue", uid: "u", resourceVersion: "1" },
    spec: { network: "blue" },
    status: {
      usedSpace: {
        observed: "2026-01-01T00:00:00Z",
        version: "1",
        used: [`ipv4 ${text.slice(0, 65_531)}`],
        retained: [],
        cooling: [`ipv4 ${text.slice(0, 65_531)}`],
        unlisted: [],
      },
    },
  });
const held = (text: string) => {
  const {
    held: addresses,
    problems,
    cut,
  } = statusAddresses(
    projectPod(JSON.parse(objectWith(`metadata.annotations.${STATUS}`, JSON.stringify(text))), {
      addresses: true,
    }),
  );
  return { addresses, problems, cut };
};

/** What is made of the text of an annotation or a field that is a text, whatever is in it. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  "network selection": (text) => readNetworkSelection({ "k8s.v1.cni.cncf.io/networks": text }, "shop"),
  "claims of a network selection": (text) => claimsNamedBy({ "k8s.v1.cni.cncf.io/networks": text }, "shop"),
  "claim of the primary interface": (text) =>
    readNetworkSelection({ "k8s.ovn.org/primary-udn-ipamclaim": text }, "shop"),
  "addresses that a VM asks for": readRequestedAddresses,
  "network status": held,
  "networks of OVN-Kubernetes": (text) => readPodNetworks(text),
  // As a field of a view.
  "shared with": (text) => leanView({ sharedWith: readSharedWith(text) }),
  reservations,
  "reference to content": parseContentReference,
  "configuration of a NAD": (text) => readNadConfig(text, "blue"),
  // Kept only in the number of characters that cni/request.ts remembers in all.
  "configuration of the runtime": (text) => void parsePassed(text),
  // A controller writes it, and each run of addresses is kept: by its definition 65,536 characters of each set.
  "published space": (text) => void published(text),
};

/** Lists that are not JSON. */
const PLAIN = {
  commas: (bytes: number, salt: number) => joined(bytes, (at) => (at + salt).toString(36)),
  base64: (bytes: number) => `runs:${"A".repeat(bytes - 5)}`,
  bits: (bytes: number) => `bits:a000000:${"q".repeat(bytes - 13)}`,
  words: (bytes: number, salt: number) =>
    `blue 10.0.0.1/8 -> blue ${joined(bytes - 30, (at) => `10.0.0.${(at + salt) % 250}/8`)}`,
  addresses: (bytes: number, salt: number) =>
    `[{"name":"a/b","ips":[${joined(bytes - 40, (at) => `"10.${(at >> 8) % 256}.${at % 256}.${salt % 250}"`)}]}]`,
};
/** A full collection takes as long as twenty readings: those shapes that differ in what a reader makes of them. */
const TEXTS = {
  "nested lists": SHAPES["nested lists"],
  "empty objects": SHAPES["empty objects"],
  digits: SHAPES.digits,
  texts: SHAPES.texts,
  "wide text": SHAPES["wide text"],
  escapes: SHAPES.escapes,
  keys: SHAPES.keys,
  "one key": SHAPES["one key"],
  ...PLAIN,
};

describe.each(Object.keys(READERS))("%s", (name) => {
  const read = READERS[name] as (text: string) => unknown;

  test("keeps twice a text at most, whatever its shape", () => {
    for (const [shape, textOf] of Object.entries(TEXTS)) {
      const reading = keptOf((salt) => textOf(ANNOTATIONS_BYTES_MAX, salt), read);
      expect(reading.keptBytes, shape).toBeLessThanOrEqual(2 * reading.textBytes);
      expectMeanwhile(name, reading, shape);
    }
  });

  test("takes time in proportion to a text, whatever its shape", () => {
    for (const [shape, textOf] of Object.entries(TEXTS)) {
      expectProportion((share) => textOf(ANNOTATIONS_BYTES_MAX * share, 1), read, shape);
    }
  });
});

describe("JSON with a bound", () => {
  test("is refused by its length, which it is told with the limit", () => {
    expect(() => parseBoundedJson(`"${"a".repeat(100)}"`, 100)).toThrow(
      "it has 102 characters, and at most 100 are read",
    );
    expect(parseBoundedJson(`"${"a".repeat(98)}"`, 100)).toHaveLength(98);
  });

  test("is refused by its depth before anything is made of it; brackets in texts are none", () => {
    expect(() => parseBoundedJson("[".repeat(100_000), 100_000)).toThrow("nested deeper than 64 levels");
    const levels = (count: number) => `${"[".repeat(count)}"${'[\\"{'.repeat(100)}"${"]".repeat(count)}`;
    expect(() => parseBoundedJson(levels(65), 1_000)).toThrow("nested deeper than 64 levels");
    expect(parseBoundedJson(levels(64), 1_000)).toHaveLength(1);
  });
});

describe("a pool of whereabouts", () => {
  test("says how many of its entries are none, and names twenty", () => {
    const allocations = SHAPES.keys(OBJECT_BYTES_MAX, 36 ** 3);
    const pool = readPool(JSON.parse(objectWith("spec.allocations", allocations, { spec: { range: "10.0.0.0/8" } })));
    if (typeof pool === "string") throw new Error(pool);
    expect(pool.problems).toHaveLength(21);
    expect(pool.problems.at(-1)).toMatch(/^IPPool shop\/one: \d+ more of spec.allocations are not in its range$/);
  });
});

describe("streams", () => {
  const chunksOf = (bytes: Buffer, size = 1_460) =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
  const inList = (text: string) => {
    const seen: unknown[] = [];
    const stream = new ListStream((json) => seen.push(json.length));
    for (const chunk of chunksOf(Buffer.from(`{"items":[${text}],"metadata":{}}`))) stream.push(chunk);
    stream.end();
    return seen;
  };
  const inWatch = (text: string) => {
    const seen: string[] = [];
    const stream = new WatchStream((type) => seen.push(type));
    for (const chunk of chunksOf(Buffer.from(`{"type":"ADDED","object":${text}}\n`))) stream.push(chunk);
    return seen;
  };
  const inOvsdb = (text: string) => {
    const objects = new JsonObjects(1 << 26);
    let count = 0;
    for (const chunk of chunksOf(Buffer.from(`{"id":${text}}`))) count += objects.push(chunk.toString()).length;
    return count;
  };

  test.each([
    ["a list", inList],
    ["a watch", inWatch],
    ["an OVSDB server", inOvsdb],
  ] as const)("%s: an object in small pieces takes time in proportion, and nothing of it stays", (name, read) => {
    for (const shape of ["nested lists", "texts", "escapes", "keys"] as const) {
      const textOf = (salt: number) => SHAPES[shape](1_000_000, salt);
      const reading = keptOf(textOf, read);
      expect(reading.keptBytes, shape).toBeLessThanOrEqual(2 * reading.textBytes);
      expectMeanwhile(name, reading, shape);
      expectProportion((share) => SHAPES[shape](1_000_000 * share, 1), read, shape);
    }
  });

  test("one object above the limit ends a list and a watch with the limit", () => {
    const long = SHAPES.text(17 << 20, 1);
    expect(() => inList(long)).toThrow(`an object of the list has more than ${1 << 24} bytes`);
    expect(() => inWatch(long)).toThrow(`an event of the watch has more than ${1 << 24} bytes`);
  });
});

describe("files", () => {
  let directory = "";
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "holdfast-bounds-"));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  test("are read up to a limit, however long they are or say they are", () => {
    const path = join(directory, "file");
    writeFileSync(path, "a".repeat(100_000));
    expect(readBounded(path, 100_000)).toHaveLength(100_000);
    expect(() => readBounded(path, 99_999)).toThrow(`${path} has more than 99999 bytes`);
    expect(() => readBounded("/dev/zero", 1 << 20)).toThrow("/dev/zero has more than 1048576 bytes");
    expect(readBounded("/proc/self/status", 1 << 20).length).toBeGreaterThan(100);
    expect(() => readBounded(join(directory, "none"), 10)).toThrow("ENOENT");
  });
});

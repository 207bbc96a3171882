import { describe, expect, test } from "vitest";
import { AddConfigs } from "../../cni/request.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { readNadConfig } from "../../networks/nad-reading.ts";
import { projectNad } from "../../networks/nad-view.ts";
import { NodeConfigurations } from "../../networks/node-configurations.ts";
import { RuntimeConfigurations } from "../../networks/runtime-configurations.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { expectProportion, growthOf, keptOf } from "./measure.ts";
import { ANNOTATIONS_BYTES_MAX } from "./objects.ts";
import { joined, list, SHAPES } from "./shapes.ts";

const address = (at: number) => `10.${(at >> 16) % 256}.${(at >> 8) % 256}.${at % 256}`;
const mac = (at: number) =>
  ["02:00:00:00", at >> 8, at % 256].map((one) => one.toString(16).padStart(2, "0")).join(":");

/** What a network may have much of, and what is in a configuration beside it. */
const MUCH: Readonly<Record<string, (bytes: number) => string>> = {
  excludeSubnets: (bytes) => `"excludeSubnets":[${joined(0.8 * bytes, (at) => `"${address(256 * at)}/32"`)}]`,
  reservations: (bytes) =>
    `"reservations":${list(bytes, (at) => `{"mac":"${mac(at)}","ips":["${address(2 * at + 5)}"]}`)}`,
  "empty objects": (bytes) => `"more":${SHAPES["empty objects"](bytes)}`,
  keys: (bytes) => `"more":${SHAPES.keys(bytes, 1)}`,
  texts: (bytes) => `"more":${SHAPES.texts(bytes, 1)}`,
  escapes: (bytes) => `"more":${SHAPES.escapes(bytes, 1)}`,
};

const configuration = (name: string, bytes: number, salt: number) => {
  const much = MUCH[name]?.(bytes) as string;
  const [ofNetwork, beside] = much.startsWith('"more"') ? ["", `,${much}`] : [`,${much}`, ""];
  return `{"cniVersion":"1.0.0","name":"n${salt}","type":"bridge","ipam":{"type":"holdfast-ipam","subnets":"10.0.0.0/8"${ofNetwork}}${beside}}`;
};

/**
 * How many times a text is kept at most: 2, but of what stands as intervals and in tables by address (docs/bounds.md).
 */
const KEPT_MAX: Readonly<Record<string, number>> = { excludeSubnets: 8, reservations: 12 };

/** Through everything that keeps something of it; those who keep it live as long as what they return. */
const KEEPERS: Readonly<Record<string, (text: string) => unknown>> = {
  "the catalog of networks, once it is asked for": (config) => {
    const catalog = new DefinitionCatalog(new ManualClock());
    const name = /"name":"(\w+)"/.exec(config)?.[1] as string;
    const metadata = { namespace: "shop", name, uid: "u", resourceVersion: "1", creationTimestamp: "t" };
    catalog.upsert(projectNad({ metadata, spec: { config } }));
    return [catalog, catalog.permits(name, "shop")];
  },
  "the remembered configurations of ADDs": (text) => {
    const configs = new AddConfigs();
    configs.read(text);
    return configs;
  },
  "a node's own configurations": (text) => {
    const configs = new AddConfigs();
    const { conf } = configs.read(text);
    const own = new NodeConfigurations(new ManualClock());
    own.note({ network: "blue", conf, ownDefinition: () => configs.read(text) });
    return own;
  },
  "the runtime's configurations of applied networks": (text) => {
    const runtime = new RuntimeConfigurations();
    runtime.note(new AddConfigs().read(text));
    return runtime;
  },
};

test.each(Object.keys(MUCH))("a network may have as much of it: %s", (name) => {
  expect(readNadConfig(configuration(name, 200_000, 1), "n1")).toMatchObject({ kind: "ours" });
});

describe.each(Object.keys(KEEPERS))("%s", (keeper) => {
  const read = KEEPERS[keeper] as (text: string) => unknown;

  test.each(Object.keys(MUCH))("%s: what is kept of the text has a bound, in time in proportion", (name) => {
    const { keptBytes, textBytes } = keptOf((salt) => configuration(name, 200_000, salt), read);
    expect(keptBytes / textBytes, name).toBeLessThanOrEqual(KEPT_MAX[name] ?? 2);
    expectProportion((share) => configuration(name, 200_000 * share, 1), read, name);
  });
});

/** 40 networks of 200 kB each, of which half are remembered. */
const MANY = 40;

describe("of very many networks the latest are remembered, up to a size", () => {
  const read = (at: number) => new AddConfigs().read(configuration("empty objects", 200_000, at));

  test("a node's own configurations", async () => {
    const own = new NodeConfigurations(new ManualClock());
    const passed = Array.from({ length: MANY }, (_, at) => `n${at}`);
    for (const [at, network] of passed.entries()) {
      const { conf } = read(at);
      const ownDefinition = () => {
        throw new RefusalError(refuse("NETWORK_UNDEFINED", { network }));
      };
      own.note({ network, conf, ownDefinition });
    }
    const parts = {
      catalog: { definitionOf: () => null },
      node: "a",
      isUsed: () => true,
      holderOf: async () => null,
    };
    const found = await own.findings(parts);
    expect(found.length).toBeGreaterThan(10);
    expect(found.length).toBeLessThan(MANY);
    expect(found.at(-1)?.message).toContain("network n39 ");
  });

  test("the runtime's configurations of applied networks", () => {
    const runtime = new RuntimeConfigurations();
    for (let at = 0; at < MANY; at += 1) runtime.note(read(at));
    const applied = parsePluginConfig({
      ...{ cniVersion: "1.0.0", name: "any", type: "bridge" },
      ipam: { type: "holdfast-ipam", subnets: "10.1.0.0/24" },
    });
    const notes = runtime.notes(() => ({ definition: applied, by: "default/any" }));
    expect(notes).toHaveLength(Math.floor((4 << 20) / 200_000));
    expect(notes.at(-1)).toContain("network n39 ");
  });
});

test("a reader whose time grows with the square of the text is found", () => {
  const quadratic = (text: string) => {
    const seen: string[] = [];
    for (const one of JSON.parse(text)) if (!seen.includes(one)) seen.push(one);
    return seen;
  };
  const textOf = (share: number) => SHAPES.texts((ANNOTATIONS_BYTES_MAX / 4) * share, 1);
  expect(growthOf(textOf, quadratic)).toBeGreaterThan(3);
  expect(() => expectProportion(textOf, quadratic)).toThrow();
  expectProportion(textOf, JSON.parse);
});

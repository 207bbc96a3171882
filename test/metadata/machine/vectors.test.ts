/**
 * What is known of Metal3's own rendering, case by case: vectors/*.yaml. A case says `what` it is about, and has a
 * template's `spec`, of what it is rendered from that which matters (see inputs.ts), and one of these in `then`:
 *
 *   metaData, networkData    the whole document as values; null: none
 *   links, networks, services   a part of the document about networks
 *   metaDataText, networkDataText   byte for byte
 *   pools, poolNames         what the template names
 *   problem                  a text that the problem contains; true: any
 *   accepted                 the template can be read
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import {
  type MachineTemplateSpec,
  poolReferencesOf,
  readMachineTemplate,
  renderMachineTemplate,
  renderMachineValues,
} from "../../../metadata/documents/machine-template.ts";
import { type GivenInputs, inputs } from "./inputs.ts";

interface VectorCase extends GivenInputs {
  readonly what: string;
  readonly template: MachineTemplateSpec;
  readonly then: Readonly<Record<string, unknown>>;
}

const DIRECTORY = join(import.meta.dirname, "vectors");

function casesOf(file: string): [string, VectorCase][] {
  const cases: VectorCase[] = parse(readFileSync(join(DIRECTORY, `${file}.yaml`), "utf8"));
  return cases.map((one) => [one.what, one]);
}

function expectProblem(problem: string | null, expected: unknown): void {
  expect(problem).not.toBeNull();
  if (typeof expected === "string") expect(problem).toContain(expected);
}

test("each file of vectors is read here", () => {
  const files = ["computed-addresses", "meta-data", "network-data", "pools", "reading"];
  expect(readdirSync(DIRECTORY).sort()).toEqual([...files.map((file) => `${file}.yaml`), "yaml-texts.json"]);
});

describe.each(["meta-data", "network-data", "computed-addresses"])("%s", (file) => {
  test.each(casesOf(file))("%s: renders what is written there", (_what, { template, then, ...given }) => {
    const spec = readMachineTemplate(template);
    if ("problem" in spec) return expectProblem(spec.problem, then.problem);
    const from = inputs(given);
    const values = renderMachineValues(spec, from);
    if ("problem" in then) {
      expect(renderMachineTemplate(spec, from)).toEqual(values);
      return expectProblem(values.kind === "failed" ? values.problem : null, then.problem);
    }
    const rendered = renderMachineTemplate(spec, from);
    if (values.kind === "failed" || rendered.kind === "failed") throw new Error(JSON.stringify(values));
    const all = {
      ...values.networkData,
      metaData: values.metaData,
      networkData: values.networkData,
      metaDataText: rendered.metaData,
      networkDataText: rendered.networkData,
    };
    expect(all).toMatchObject(then);
  });
});

describe("pools", () => {
  test.each(casesOf("pools"))("%s: names these pools", (_what, { template, then, ...given }) => {
    const named = poolReferencesOf(template, inputs(given));
    if ("problem" in then) {
      return expectProblem(named.kind === "failed" ? named.problem : null, then.problem);
    }
    if (named.kind === "failed") throw new Error(named.problem);
    if (then.pools) expect(named.pools).toEqual(then.pools);
    else expect(named.pools.map(({ name }) => name).sort()).toEqual(then.poolNames);
  });
});

describe("reading", () => {
  test.each(casesOf("reading"))("%s: is read or refused", (_what, { template, then }) => {
    const spec = readMachineTemplate(template);
    if (then.accepted) expect(spec).not.toHaveProperty("problem");
    else expectProblem("problem" in spec ? spec.problem : null, then.problem);
  });
});

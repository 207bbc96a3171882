import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type MachineTemplateSpec,
  poolReferencesOf,
  readMachineTemplate,
  renderMachineTemplate,
  renderMachineValues,
} from "../../../metadata/documents/machine-template.ts";
import { readNetworkData, readYaml, whyNoCloudInit, whyNoNewerCloudInit } from "../cloud-init/cloud-init.ts";
import { anyInputs, anyMetaData, anyNetworkData, anyTemplate, NICS } from "./templates.ts";

const why = whyNoCloudInit();
const GUEST = { macs: Object.fromEntries(Object.entries(NICS).map(([name, mac]) => [mac, name])) };

/** Without unpaired surrogates, as UTF-8 and so every API object is. */
function sent<T>(value: T): T {
  return JSON.parse(JSON.stringify(value).replaceAll(/\\ud[89a-f][0-9a-f]{2}/g, "\\ufffd"));
}

test("any template at all is rendered, or there is a text why not", () => {
  let rendered = 0;
  fc.assert(
    fc.property(anyTemplate, anyInputs, (given, inputs) => {
      const spec = readMachineTemplate(sent(given));
      if ("problem" in spec) {
        expect(spec.problem).toMatch(/^spec\./);
        return;
      }
      const result = renderMachineTemplate(spec, inputs);
      const values = renderMachineValues(spec, inputs);
      expect(poolReferencesOf(spec, inputs).kind).toBe("pools");
      if (result.kind === "failed") {
        expect(values).toEqual(result);
        return;
      }
      rendered += 1;
      expect(renderMachineTemplate(spec, inputs)).toEqual(result);
    }),
    { numRuns: 1_000 },
  );
  expect(rendered).toBeGreaterThan(20);
});

describe.skipIf(why !== null)("a guest", () => {
  test("reads back every value of metaData as the same string", async () => {
    const samples = fc.sample(fc.tuple(anyMetaData, anyInputs), 300).map(([metaData, inputs]) => {
      const spec = { metaData: sent(metaData) } as MachineTemplateSpec;
      const values = renderMachineValues(spec, inputs);
      const result = renderMachineTemplate(spec, inputs);
      if (values.kind === "failed" || result.kind === "failed") throw new Error(JSON.stringify([spec, values]));
      return { values: values.metaData, text: result.metaData ?? "" };
    });
    const read = await readYaml(samples.map(({ text }) => text));
    for (const [at, { values, text }] of samples.entries()) expect(read[at], text).toEqual(values);
  });

  describe.each([
    { newer: false, whyNot: why },
    { newer: true, whyNot: whyNoNewerCloudInit() },
  ])("with cloud-init (newer: $newer)", ({ newer, whyNot }) => {
    // In halves, each within the limit of a test on a machine that others keep busy.
    test.skipIf(whyNot !== null).each([1, 2])("configures the network, found by MAC and by name, %i", async () => {
      const samples = fc.sample(fc.tuple(anyNetworkData, anyInputs), 30).map(([networkData, inputs]) => {
        const spec = readMachineTemplate(sent({ networkData }));
        if ("problem" in spec) throw new Error(spec.problem);
        const result = renderMachineTemplate(spec, inputs);
        const values = renderMachineValues(spec, inputs);
        if (values.kind === "failed" || result.kind === "failed") throw new Error(JSON.stringify([spec, values]));
        return {
          networks: values.networkData?.networks as { ip_address?: string }[],
          text: result.networkData ?? "",
        };
      });
      const read = await readNetworkData(
        samples.map(({ text }) => text),
        { ...GUEST, newer },
      );
      for (const [at, { networks, text }] of samples.entries()) {
        const netplan = read[at];
        expect(netplan, text).toHaveProperty("network");
        const shown = JSON.stringify(netplan);
        for (const { ip_address } of networks) if (ip_address) expect(shown, text).toContain(`"${ip_address}/`);
      }
    });
  });
});

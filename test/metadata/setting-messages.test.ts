import { describe, expect, test } from "vitest";
import { loadControllerSettings } from "../../controller/config.ts";
import { loadSettings } from "../../daemon/config.ts";
import { loadNetSettings } from "../../metadata/net/settings.ts";
import { loadMetadataSettings } from "../../metadata/server/settings.ts";

const LOADERS = [
  ["daemon", loadSettings, ', or "off"'],
  ["controller", loadControllerSettings, ""],
  ["metadata", loadMetadataSettings, ", or off"],
  ["metadata-net", loadNetSettings, ", or off"],
] as const;

describe.each(LOADERS)(
  "a setting that %s refuses: where it was given, key, value and what is expected",
  (_, load, off) => {
    test.each(["nowhere", "127.0.0.1:70000"])("metricsAddress %s", (address) => {
      const expected = `metricsAddress is "${address}": expected host:port, with a port up to 65535${off}`;
      expect(() => load({ metricsAddress: address }, {})).toThrow(`command line: ${expected}`);
      expect(() => load({}, { HOLDFAST_METRICS_ADDRESS: address })).toThrow(`environment: ${expected}`);
    });

    test("what is right is read", () => {
      expect(load({ metricsAddress: "[::1]:65535" }, {}).metricsAddress).toEqual({
        host: "::1",
        port: 65_535,
      });
    });
  },
);

test("a group that the daemon does not find is refused in the same form", () => {
  expect(() => loadSettings({}, { HOLDFAST_IDENTITY_GROUP: "no-such-group" })).toThrow(
    'environment: identityGroup is "no-such-group": there is no such group in /etc/group; add it',
  );
});

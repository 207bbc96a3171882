import { expect, test } from "vitest";
import { entryOf } from "../../guests/ports/entry.ts";

test.for<[string, object, readonly string[]]>([
  ["the bridge plugin's default", { type: "bridge" }, ["cni0"]],
  ["a bridge under another plugin's name", { type: "cnv-bridge", bridge: "br1" }, ["br1"]],
  ["a VLAN of bridge", { type: "bridge", bridge: "br1", isGateway: true, vlan: 5 }, ["br1", "br1.5"]],
  ["a VLAN of cnv-bridge", { type: "cnv-bridge", bridge: "br1", isGateway: true, vlan: 5 }, ["br1", "br1.5"]],
  ["a VLAN without gateway", { type: "cnv-bridge", bridge: "br1", vlan: 5 }, ["br1"]],
])("frames of a guest come to the node by %s", ([_what, conf, names]) => {
  expect(entryOf(conf as Record<string, unknown>)).toEqual({ kind: "bridges", names });
});

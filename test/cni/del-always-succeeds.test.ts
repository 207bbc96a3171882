import { describe, expect } from "vitest";
import { expectDone, held, network, pod, test } from "./fixtures.ts";

/*
 * A pod must not stay in "Terminating" because its network cannot be understood any more. DEL needs the container ID
 * and the interface name, and nothing else.
 */

const COOLING = ["10.10.0.1/24 Cooling container c1 (eth0)"];

describe("DEL releases the address with", () => {
  // What arrives on stdin when multus lost the cache, the NAD was deleted or a file was cut off.
  const CONFIGURATIONS: [string, string][] = [
    ["nothing on stdin", ""],
    ["half a configuration", '{"cniVersion":"1.0.0","name":"bl'],
    ["an empty object", "{}"],
    ["no name", '{"cniVersion":"1.0.0","type":"bridge"}'],
    ["a name that is no text", '{"cniVersion":"1.0.0","name":{"blue":1}}'],
    ["no ipam block", '{"cniVersion":"1.0.0","name":"blue","type":"bridge"}'],
    ["another plugin's ipam block", '{"cniVersion":"1.0.0","name":"blue","ipam":{"type":"host-local"}}'],
    ["ranges that are nonsense", JSON.stringify(network("blue", { subnets: "10.10.0.0/99", gateway: 5 }))],
    ["ranges that are elsewhere", JSON.stringify(network("blue", { subnets: "192.0.2.0/24" }))],
    ["a list", "[]"],
    ["null", "null"],
    ["a number", "5"],
    ["bytes that are no text", "\u0000\u0001\u00ff{"],
    ["an unknown cniVersion", JSON.stringify(network("blue", {}, { cniVersion: "9.9.9" }))],
    ["a cniVersion that is no text", JSON.stringify(network("blue", {}, { cniVersion: 1 }))],
    ["an empty prevResult", JSON.stringify({ ...network("blue"), prevResult: {} })],
    ["a prevResult of nonsense", JSON.stringify({ ...network("blue"), prevResult: { ips: [{ address: "x" }] } })],
  ];
  test.for(CONFIGURATIONS)("%s", async ([, config], { daemon }) => {
    await daemon.cni("ADD", "c1");
    expectDone(await daemon.cni("DEL", "c1", { config }));
    expect(await held(daemon, "blue")).toEqual(COOLING);
  });

  test("an empty CNI_NETNS, as when the namespace is gone", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    expectDone(await daemon.cni("DEL", "c1", { netns: "" }));
    expect(await held(daemon, "blue")).toEqual(COOLING);
  });

  test("CNI_ARGS that an ADD would refuse", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    expectDone(await daemon.cni("DEL", "c1", { args: "COLOUR=blue;IP=nonsense;=;x" }));
    expect(await held(daemon, "blue")).toEqual(COOLING);
  });

  test("a configuration too large to be carried", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    const answer = await daemon.cni("DEL", "c1", { config: `{"padding":"${"x".repeat(600_000)}"}` });
    expect(answer).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("goes on without its configuration"),
    });
    expect(await held(daemon, "blue")).toEqual(COOLING);
  });
});

describe("DEL succeeds without doing anything", () => {
  test("for a container that never existed", async ({ daemon }) => {
    expectDone(await daemon.cni("DEL", "never"));
    expectDone(await daemon.cni("DEL", "never", { config: "{}", netns: "" }));
  });

  test("when it is repeated and the address is another owner's meanwhile", async ({ daemon }) => {
    const config = network("tiny", { subnets: "192.0.2.1/32" });
    await daemon.cni("ADD", "c1", { config });
    expectDone(await daemon.cni("DEL", "c1", { config }));
    await daemon.cni("ADD", "c2", { config });
    expectDone(await daemon.cni("DEL", "c1", { config }));
    expect(await held(daemon, "tiny")).toEqual(["192.0.2.1/32 Bound container c2 (eth0)"]);
  });

  test("for another interface, another container, another pod", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { args: pod("pod-a") });
    expectDone(await daemon.cni("DEL", "c1", { ifname: "eth1", args: pod("pod-a") }));
    expectDone(await daemon.cni("DEL", "c11", { args: pod("pod-a") }));
    expectDone(await daemon.cni("DEL", "C1", { args: pod("pod-a") }));
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound pod default/pod-a (eth0)"]);
  });

  test("when it names another network", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    expectDone(await daemon.cni("DEL", "c1", { config: network("red") }));
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
  });
});

describe("DEL of an interface that is on two networks", () => {
  test("ends the network that it names, and both when it names none", async ({ daemon }) => {
    for (const name of ["blue", "red", "green"]) await daemon.cni("ADD", "c1", { config: network(name) });
    await daemon.cni("DEL", "c1", { config: network("blue") });
    expect(await held(daemon, "blue")).toEqual(COOLING);
    expect(await held(daemon, "red")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
    await daemon.cni("DEL", "c1", { config: "{}" });
    for (const name of ["red", "green"]) expect(await held(daemon, name)).toEqual(COOLING);
  });
});

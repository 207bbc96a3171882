import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { until } from "../harness/wait.ts";
import { identity, otherVm, UUID } from "./fake-identity.ts";
import { MetadataServer } from "./metadata-server.ts";
import { StandInNova } from "./stand-in-nova.ts";

const CONTAINER = "c".repeat(64);
const SUBJECT = `container/${CONTAINER}/net1`;
const META_DATA = "/openstack/latest/meta_data.json";
const OTHER = "99999999-9999-4999-8999-999999999999";

let server: MetadataServer;
beforeAll(async () => {
  server = await MetadataServer.start();
});
afterAll(() => server?.stop());
beforeEach(() => {
  server.identity.known.clear();
  server.identity.known.set(`blue ${SUBJECT}`, identity());
});

describe("the guest behind a request", () => {
  test("is identified by its port, not by its address", async () => {
    server.identity.known.set("blue 10.10.0.5", otherVm(OTHER));
    expect((await server.ask(META_DATA, { subject: SUBJECT })).json().uuid).toBe(UUID);
  });

  test("is told apart by its port from another one with the same address", async () => {
    server.identity.known.set("blue container/other/net1", otherVm(OTHER));
    const uuids = await Promise.all(
      [SUBJECT, "container/other/net1", SUBJECT].map(
        async (subject) => (await server.ask(META_DATA, { subject })).json().uuid,
      ),
    );
    expect(uuids).toEqual([UUID, OTHER, UUID]);
  });

  test("is a pod by its UID on a network of OVN-Kubernetes", async () => {
    server.identity.known.set("cluster_udn_blue pod/4711", otherVm(OTHER));
    const asked = { subject: "pod/4711", network: "cluster_udn_blue", source: null };
    expect((await server.ask("/nocloud/meta-data", asked)).text).toContain(OTHER);
  });

  test("may have an interface with any name", async () => {
    server.identity.known.set("blue container/one/a b:c%2/d", otherVm(OTHER));
    const subject = `container/one/${encodeURIComponent("a b:c%2/d")}`;
    expect((await server.ask(META_DATA, { subject })).json().uuid).toBe(OTHER);
  });

  test("is unknown once its container is gone, although another guest has the address", async () => {
    server.identity.known.delete(`blue ${SUBJECT}`);
    server.identity.known.set("blue 10.10.0.5", otherVm(OTHER));
    const lines = [["x-holdfast-claimed", "10.10.0.77"]] as const;
    expect((await server.ask(META_DATA, { subject: SUBJECT, lines })).status).toBe(404);
    const lineOf = () => server.log.split("\n").find((one) => one.includes("nobody is known") && one.endsWith("}"));
    await until(() => lineOf() !== undefined, "the log says that nobody is known");
    const line = lineOf() ?? "{}";
    expect(JSON.parse(line)).toMatchObject({
      network: "blue",
      subject: `container ${CONTAINER}, interface net1`,
      source: "10.10.0.5",
      claimed: "10.10.0.77",
    });
  });

  test.each([
    ["an empty one", ""],
    ["another kind", "vm/one/net1"],
    ["no container", "container//net1"],
    ["no interface", "container/one"],
    ["an empty interface", "container/one/"],
    ["something behind the interface", "container/one/net1/more"],
    ["a pod with an interface", "pod/4711/net1"],
    ["a pod without UID", "pod/"],
    ["a broken spelling", "container/one/%zz"],
  ])("is refused with an invalid subject: %s", async (_, subject) => {
    const before = server.identity.asked.length;
    expect((await server.ask("/openstack", { subject })).status).toBe(400);
    expect(server.identity.asked.length).toBe(before);
  });

  test.each([
    ["two subjects", { lines: [["X-Holdfast-Subject", "pod/4711"]] }],
    ["two sources", { lines: [["X-Holdfast-Source", "10.10.0.6"]] }],
    ["a source that is none", { source: "10.10.0" }],
    ["no network", { network: null }],
  ] as const)("is refused with %s", async (_, asked) => {
    expect((await server.ask("/openstack", { subject: SUBJECT, ...asked })).status).toBe(400);
  });

  test("is asked again when the daemon comes back", async () => {
    server.identity.fault = { status: 503, code: "NOT_READY" };
    expect((await server.ask("/openstack", { subject: SUBJECT })).status).toBe(503);
    server.identity.fault = null;
    expect((await server.ask("/openstack", { subject: SUBJECT })).status).toBe(200);
  });
});

describe("whether a token is required", () => {
  test("is a matter of the network that the port is on", async () => {
    const [blue] = identity().interfaces;
    if (blue === undefined) throw new Error("no interface");
    const red = { ...blue, network: "red", metadata: { address: "", tokens: "required" as const } };
    const both = identity({ interfaces: [blue, red] });
    server.identity.known.set(`blue ${SUBJECT}`, both);
    server.identity.known.set("red container/one/net2", both);
    expect((await server.ask("/openstack", { subject: SUBJECT })).status).toBe(200);
    expect((await server.ask("/openstack", { subject: "container/one/net2", network: "red" })).status).toBe(401);
  });
});

describe("a backend receives", () => {
  let nova: StandInNova;
  let forwarding: MetadataServer;
  beforeAll(async () => {
    nova = await StandInNova.start();
    forwarding = await MetadataServer.start(["--nova-url", nova.url]);
    forwarding.identity.known.set(`blue ${SUBJECT}`, identity());
  });
  afterAll(async () => {
    await forwarding?.stop();
    await nova?.stop();
  });

  test("the recorded address, whatever the guest calls itself", async () => {
    const lines = [["x-holdfast-claimed", "10.10.0.77"]] as const;
    expect((await forwarding.ask("/openstack", { subject: SUBJECT, lines })).status).toBe(200);
    expect(nova.sent("x-forwarded-for")).toEqual(["10.10.0.5"]);
    expect(nova.sent("x-neutron-network-id")).toEqual(["blue"]);
  });

  test("the identity's address on the network when the listener says none", async () => {
    for (const source of [null, ""]) {
      expect((await forwarding.ask("/openstack", { subject: SUBJECT, source })).status).toBe(200);
      expect(nova.sent("x-forwarded-for")).toEqual(["10.10.0.5"]);
    }
  });

  test("an IPv6 address of a guest without IPv4", async () => {
    forwarding.identity.known.set(
      "six container/six/net1",
      identity({}, { network: "six", addresses: [{ address: "fd00:10::5/64" }] }),
    );
    const asked = { subject: "container/six/net1", network: "six", source: "fd00:10::5" };
    expect((await forwarding.ask("/openstack", asked)).status).toBe(200);
    expect(nova.sent("x-forwarded-for")).toEqual(["fd00:10::5"]);
  });
});

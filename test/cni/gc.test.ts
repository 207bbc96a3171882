import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, errorOf, expectDone, held, network, past, pod, test } from "./fixtures.ts";
import { apply, claim, withClaim } from "./manifests.ts";
import { addressesIn, FORMER_BOOT, send, T } from "./wire.ts";

/*
 * GC (CNI 1.1.0) ends the attachments of the network it names that are not listed and whose namespace is gone. Of every
 * other network, and of claims, it has its hands off.
 */

const listed = (...ids: string[]) => ids.map((containerID) => ({ containerID, ifname: "eth0" }));

function gc(daemon: ServedDaemon, valid: unknown, name = "blue") {
  const config = { ...network(name, {}, { cniVersion: "1.1.0" }), "cni.dev/valid-attachments": valid };
  return daemon.cni("GC", "", { config, ifname: "", netns: "" });
}

describe("GC ends", () => {
  test("unlisted attachments, and keeps listed ones", async ({ daemon }) => {
    for (const id of ["c1", "c2", "c3"]) await daemon.cni("ADD", id);
    expectDone(await gc(daemon, listed("c2")));
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Cooling container c1 (eth0)",
      "10.10.0.2/24 Bound container c2 (eth0)",
      "10.10.0.3/24 Cooling container c3 (eth0)",
    ]);
    expect(await past(daemon, "10.10.0.1")).toEqual(["container c1 until GC"]);
  });

  test("interfaces separately", async ({ daemon }) => {
    for (const ifname of ["net1", "net2"]) await daemon.cni("ADD", "c1", { ifname });
    expectDone(await gc(daemon, [{ containerID: "c1", ifname: "net2" }]));
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Cooling container c1 (net1)",
      "10.10.0.2/24 Bound container c1 (net2)",
    ]);
  });

  test("only attachments of the network that it names", async ({ daemon }) => {
    for (const name of ["blue", "red"]) await daemon.cni("ADD", "c1", { config: network(name) });
    expectDone(await gc(daemon, [], "blue"));
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Cooling container c1 (eth0)"]);
    expect(await held(daemon, "red")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
  });

  test("everything of a network with an empty list, and nothing of an unknown network", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    expectDone(await gc(daemon, [], "unheard-of"));
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
    expectDone(await gc(daemon, []));
    expectDone(await gc(daemon, []));
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Cooling container c1 (eth0)"]);
  });

  test("by a list under either of the specification's names, and keeps what one of two lists names", async ({
    daemon,
  }) => {
    const call = (lists: object) =>
      daemon.cni("GC", "", {
        config: { ...network("blue", {}, { cniVersion: "1.1.0" }), ...lists },
        ifname: "",
        netns: "",
      });
    for (const id of ["c1", "c2", "c3"]) await daemon.cni("ADD", id);
    expectDone(await call({ "cni.dev/attachments": listed("c1", "c2") }));
    expectDone(await call({ "cni.dev/attachments": listed("c1"), "cni.dev/valid-attachments": listed("c2") }));
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Bound container c1 (eth0)",
      "10.10.0.2/24 Bound container c2 (eth0)",
      "10.10.0.3/24 Cooling container c3 (eth0)",
    ]);
    expect(errorOf(await call({ "cni.dev/attachments": "c1" })).msg).toContain('cni.dev/attachments is "c1"');
  });

  test("nothing that began after it, such as an ADD that overtook it", async ({ daemon }) => {
    const config = { name: "blue", cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
    await send(daemon, "ADD", { bootUs: T + 10 });
    await send(daemon, "GC", { bootUs: T, config });
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
    // It has just arrived: it is of this boot, whatever it says.
    expect((await send(daemon, "GC", { bootId: FORMER_BOOT, bootUs: T + 20, config })).status).toBe(200);
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Cooling container c1 (eth0)"]);
  });
});

describe("GC keeps", () => {
  test("an unlisted attachment whose network namespace exists, until the namespace is gone", async ({
    daemon,
    namespaces,
  }) => {
    const netns = await namespaces.add();
    await daemon.cni("ADD", "lives", { netns });
    await daemon.cni("ADD", "died");
    expectDone(await gc(daemon, []));
    expect(await held(daemon, "blue")).toEqual([
      "10.10.0.1/24 Bound container lives (eth0)",
      "10.10.0.2/24 Cooling container died (eth0)",
    ]);
    await namespaces.remove(netns);
    expectDone(await gc(daemon, []));
    expect((await held(daemon, "blue"))[0]).toBe("10.10.0.1/24 Cooling container lives (eth0)");
  });

  test("an attachment whose network namespace this daemon cannot see", async ({ daemon }) => {
    // The plugin binary saw a namespace at a path where the daemon sees none.
    await send(daemon, "ADD", { netns: "/run/netns/elsewhere", netnsId: "4:4026532999" });
    expectDone(await gc(daemon, []));
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
  });

  test("the address of a claim, though it ends the attachment", async ({ daemon }) => {
    const config = withClaim("vm1");
    await apply(daemon, claim("vm1"));
    const [address] = addressesOf(await daemon.cni("ADD", "c1", { config, args: pod("pod-a") }));
    expectDone(await gc(daemon, []));
    expect(await held(daemon, "blue")).toEqual([`${address} Bound claim default/vm1`]);
    const next = await daemon.cni("ADD", "c2", { config, args: pod("pod-b") });
    expect(addressesOf(next)).toEqual([address]);
  });
});

describe("GC refuses", () => {
  const FAULTY: [string, unknown, string][] = [
    ["no list", undefined, "GC came without cni.dev/valid-attachments and cni.dev/attachments"],
    ["null for a list", null, "GC came without cni.dev/valid-attachments and cni.dev/attachments"],
    ["a text", "c1", 'cni.dev/valid-attachments is "c1"'],
    ["an object", { containerID: "c1" }, 'cni.dev/valid-attachments is {"containerID":"c1"}'],
    ["a list of texts", ["c1"], 'cni.dev/valid-attachments is "c1"'],
    ["a list with null in it", [null], "cni.dev/valid-attachments is null"],
    ["an entry without ifname", [{ containerID: "c1" }], 'cni.dev/valid-attachments is {"containerID":"c1"}'],
    ["an entry without containerID", [{ ifname: "eth0" }], 'cni.dev/valid-attachments is {"ifname":"eth0"}'],
    ["a containerID that is no text", [{ containerID: 1, ifname: "eth0" }], '{"containerID":1,"ifname":"eth0"}'],
    ["one bad entry among good ones", [...listed("c1"), {}], "cni.dev/valid-attachments is {}"],
  ];
  test.for(FAULTY)("%s, and ends nothing", async ([, valid, message], { daemon }) => {
    await daemon.cni("ADD", "c1");
    const error = errorOf(await gc(daemon, valid));
    expect(error).toMatchObject({ code: 7, msg: expect.stringContaining(message) });
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
  });

  test.for([
    ["no name", undefined],
    ["an empty name", ""],
    ["a name that is no text", 7],
  ])("%s", async ([, name], { daemon }) => {
    await daemon.cni("ADD", "c1");
    const config = { cniVersion: "1.1.0", name, "cni.dev/valid-attachments": [] };
    const error = errorOf(await daemon.cni("GC", "", { config, ifname: "", netns: "" }));
    expect(error).toMatchObject({ code: 7, msg: expect.stringMatching(/^name is /) });
  });
});

test("GC beside concurrent ADDs ends nothing that an ADD was answered", async ({ daemon }) => {
  const adding = Array.from({ length: 20 }, (_, i) => daemon.cni("ADD", `c${i}`, { netns: "/proc/self/ns/net" }));
  const collecting = Array.from({ length: 5 }, () => gc(daemon, []));
  const answers = await Promise.all(adding);
  for (const answer of await Promise.all(collecting)) expectDone(answer);
  const bound = (await held(daemon, "blue")).filter((one) => one.includes("Bound"));
  expect(bound).toHaveLength(20);
  expect(new Set(answers.flatMap(addressesOf)).size).toBe(20);
  expect(addressesIn(await send(daemon, "ADD", { containerId: "one-more" }))).toEqual(["10.10.0.21/24"]);
});

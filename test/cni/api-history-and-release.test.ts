import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, held, network, past, pod, processTest, restart, test } from "./fixtures.ts";
import { apply, claim, claimNamed, claims, conditionOf, withClaim } from "./manifests.ts";

/** Who had an address, until when and why it ended; and an operator who takes one back. */

const release = (daemon: ServedDaemon, address: string, more: object = {}) =>
  daemon.post("/v1/release", { network: "blue", address, ...more });

describe("GET /v1/history", () => {
  processTest("has every period of an address, newest first, across a restart", async ({ daemon }) => {
    const config = network("blue", { subnets: "192.0.2.7/32" });
    await daemon.cni("ADD", "c1", { config, args: pod("uid-1", "web-0") });
    await daemon.cni("DEL", "c1", { config });
    await restart(daemon, "SIGKILL");
    await daemon.cni("ADD", "c2", { config });
    const { items } = (await daemon.get("/v1/history?address=192.0.2.7")).json();
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(items).toEqual([
      {
        network: "blue",
        address: "192.0.2.7/32",
        owner: { kind: "container", uid: "c2", interface: "eth0", namespace: "", name: "" },
        containerID: "c2",
        interface: "eth0",
        pod: null,
        node: expect.any(String),
        from: time,
        until: null,
        endedBy: null,
      },
      {
        network: "blue",
        address: "192.0.2.7/32",
        owner: { kind: "pod", uid: "uid-1", interface: "eth0", namespace: "default", name: "web-0" },
        containerID: "c1",
        interface: "eth0",
        pod: { namespace: "default", name: "web-0", uid: "uid-1" },
        node: expect.any(String),
        from: time,
        until: time,
        endedBy: "DEL",
      },
    ]);
  });

  test("lists one network or all, up to a limit", async ({ daemon }) => {
    for (const name of ["blue", "red"]) await daemon.cni("ADD", "c1", { config: network(name) });
    const count = async (query: string) => (await daemon.get(`/v1/history${query}`)).json().items.length;
    expect(await count("")).toBe(2);
    expect(await count("?limit=1")).toBe(1);
    expect(await count("?network=red")).toBe(1);
    expect(await count("?network=red&address=10.10.0.1/24")).toBe(1);
    expect(await count("?address=10.10.0.2")).toBe(0);
    expect(await count("?network=green")).toBe(0);
  });
});

describe("POST /v1/release", () => {
  test("refuses an address in use, and names its user", async ({ daemon }) => {
    await daemon.cni("ADD", "c1", { args: pod("uid-1", "web-0") });
    const answer = await release(daemon, "10.10.0.1");
    expect(answer.status).toBe(409);
    expect(answer.json()).toMatchObject({
      code: "IN_USE",
      message: "10.10.0.1 is in use by pod default/web-0 (eth0), container c1 (eth0)",
    });
    expect(await held(daemon, "blue")).toEqual(["10.10.0.1/24 Bound pod default/web-0 (eth0)"]);
  });

  test("with force releases all of the owner's addresses on the network, and the history says why", async ({
    daemon,
  }) => {
    const config = network("blue", { subnets: "10.10.0.0/24,fd10::/64" });
    await daemon.cni("ADD", "c1", { config });
    await daemon.cni("ADD", "c1", { config: network("red") });
    const answer = await release(daemon, "10.10.0.1/24", { force: true });
    expect(answer.json()).toEqual({
      addresses: ["10.10.0.1/24", "fd10::1/64"],
      holder: "container c1 (eth0)",
    });
    expect(await past(daemon, "fd10::1")).toEqual(["container c1 until forced by an operator"]);
    expect(await held(daemon, "red")).toEqual(["10.10.0.1/24 Bound container c1 (eth0)"]);
    // The container's DEL comes some day, when somebody else has the address.
    await daemon.cni("ADD", "c2", { config, args: "IP=10.10.0.5" });
    await daemon.cni("DEL", "c1", { config });
    expect(await held(daemon, "blue")).toContain("10.10.0.5/24 Bound container c2 (eth0)");
  });

  test("refuses an address of a claim that nothing uses, and names the claim", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    const [address] = addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") }));
    await daemon.cni("DEL", "c1");
    const ip = (address as string).split("/")[0] as string;
    expect((await release(daemon, ip)).json()).toMatchObject({
      message: `${ip} is in use by claim default/vm1`,
    });
    expect((await release(daemon, ip, { force: true })).json()).toEqual({
      addresses: [address],
      holder: "claim default/vm1",
    });
    expect((await claimNamed(daemon, "vm1")).status?.ips).toEqual([]);
    expect(await conditionOf(daemon, "vm1")).toBe("False InternalError");
    expect(await past(daemon, ip)).toEqual(["container c1 until DEL", "claim default/vm1 until forced by an operator"]);
    addressesOf(await daemon.cni("ADD", "c2", { config: withClaim("vm1"), args: pod("uid-2") }));
    expect(await conditionOf(daemon, "vm1")).toBe("True SuccessfulAllocation");
  });

  test("with force removes a Terminating claim with its address", async ({ daemon }) => {
    await apply(daemon, claim("vm1"));
    const [address] = addressesOf(await daemon.cni("ADD", "c1", { config: withClaim("vm1"), args: pod("uid-1") }));
    await daemon.delete("/v1/claims/default/vm1");
    await release(daemon, address as string, { force: true });
    expect(await claims(daemon)).toEqual([]);
  });

  test("frees an address that cools down at once", async ({ daemon }) => {
    const config = network("blue", { subnets: "10.10.0.0/30" });
    for (const id of ["c1", "c2"]) await daemon.cni("ADD", id, { config });
    await daemon.cni("DEL", "c1", { config });
    expect((await release(daemon, "10.10.0.1")).json()).toEqual({
      addresses: ["10.10.0.1/30"],
      holder: "container c1 (eth0)",
    });
    expect(await held(daemon, "blue")).toEqual(["10.10.0.2/30 Bound container c2 (eth0)"]);
    expect(addressesOf(await daemon.cni("ADD", "c3", { config, args: "IP=10.10.0.1" }))).toEqual(["10.10.0.1/30"]);
  });

  test("does not find an address that nobody holds", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    for (const body of [
      { network: "blue", address: "10.10.0.9" },
      { network: "green", address: "10.10.0.1" },
    ]) {
      const answer = await daemon.post("/v1/release", body);
      expect(answer.status).toBe(404);
      expect(answer.json()).toMatchObject({ code: "NOT_FOUND" });
    }
  });
});

describe("GET and DELETE /v1/claims", () => {
  test("lists claims by namespace and name, and deletes one of them", async ({ daemon }) => {
    const inShop = claim("vm1", {}, { metadata: { name: "vm1", namespace: "shop" } });
    await apply(daemon, claim("vm1"), claim("vm2"), inShop);
    const names = async (query: string) =>
      (await daemon.get(`/v1/claims${query}`))
        .json()
        .items.map(
          (one: { metadata: { namespace: string; name: string } }) => `${one.metadata.namespace}/${one.metadata.name}`,
        );
    expect(await names("")).toEqual(["default/vm1", "default/vm2", "shop/vm1"]);
    expect(await names("?namespace=default")).toEqual(["default/vm1", "default/vm2"]);
    expect(await names("?name=vm1")).toEqual(["default/vm1", "shop/vm1"]);
    expect(await names("?namespace=shop&name=vm2")).toEqual([]);
    expect((await daemon.delete("/v1/claims/shop/vm1")).json()).toEqual({ state: "deleted", ips: [] });
    expect((await daemon.delete("/v1/claims/shop/vm1")).status).toBe(404);
    expect(await names("")).toEqual(["default/vm1", "default/vm2"]);
  });
});

import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { addressesOf, network, pod, test } from "./fixtures.ts";
import { apply, claim, nad, withClaim } from "./manifests.ts";

/** `GET /v1/networks`, /metrics, /healthz and /readyz: the same truth in different clothes. */

const DUAL = { subnets: "10.10.0.0/24,fd10::/64", gateway: "10.10.0.1", excludeSubnets: "10.10.0.128/25" };

/**
 * A little of everything: bound, cooling, a claim at rest, an address outside the range of today, a network nobody
 * defines.
 */
async function live(daemon: ServedDaemon): Promise<void> {
  const blue = network("blue", DUAL, { allowPersistentIPs: true });
  for (const id of ["c1", "c2", "c3"]) await daemon.cni("ADD", id, { config: blue });
  await daemon.cni("DEL", "c3", { config: blue });
  await apply(daemon, claim("vm1"));
  await daemon.cni("ADD", "c4", { config: withClaim("vm1", DUAL), args: pod("uid-1") });
  await daemon.cni("DEL", "c4", { config: blue });
  await daemon.cni("ADD", "c5", { config: network("moved") });
  await apply(daemon, nad("moved", network("moved", { subnets: "192.0.2.0/24", cooldownSeconds: 5 })));
  await apply(daemon, claim("elsewhere", { network: "undefined" }, { status: { ips: ["10.77.0.1/24"] } }));
}

const BLUE = {
  name: "blue",
  source: "runtime",
  allowPersistentIPs: true,
  cooldownSeconds: 60,
  retainSeconds: 0,
  attachments: 2,
  outside: "0",
  ranges: [
    {
      subnets: ["10.10.0.0/24"],
      gateways: ["10.10.0.1"],
      size: "256",
      allocated: "3",
      retained: "0",
      cooling: "1",
      free: "122",
      excluded: "130",
    },
    {
      subnets: ["fd10::/64"],
      gateways: [],
      size: "18446744073709551616",
      allocated: "3",
      retained: "0",
      cooling: "1",
      free: "18446744073709551611",
      excluded: "1",
    },
  ],
};
const MOVED = {
  name: "moved",
  source: "default/moved",
  allowPersistentIPs: false,
  cooldownSeconds: 5,
  retainSeconds: 0,
  attachments: 1,
  outside: "1",
  ranges: [
    {
      subnets: ["192.0.2.0/24"],
      gateways: [],
      size: "256",
      allocated: "0",
      retained: "0",
      cooling: "0",
      free: "254",
      excluded: "2",
    },
  ],
};
const UNDEFINED = {
  name: "undefined",
  source: "none",
  allowPersistentIPs: false,
  cooldownSeconds: 60,
  retainSeconds: 0,
  attachments: 0,
  outside: "1",
  ranges: [],
};

describe("GET /v1/networks", () => {
  test("lists every network with its counts, in order of name", async ({ daemon }) => {
    await live(daemon);
    expect((await daemon.get("/v1/networks")).json()).toEqual({ items: [BLUE, MOVED, UNDEFINED] });
    expect((await daemon.get("/v1/networks/blue")).json()).toEqual(BLUE);
  });

  test("is empty at first, and does not list a network without allocations and definition", async ({ daemon }) => {
    expect((await daemon.get("/v1/networks")).json()).toEqual({ items: [] });
    await daemon.cni("ADD", "c1", { config: { ...network("bare"), ipam: { type: "holdfast-ipam" } } });
    expect((await daemon.get("/v1/networks")).json()).toEqual({ items: [] });
    const answer = await daemon.get("/v1/networks/bare");
    expect(answer.status).toBe(404);
    expect(answer.json()).toMatchObject({ code: "NOT_FOUND", message: "there is no network bare" });
  });
});

describe("GET /metrics", () => {
  test("has the values of /v1/networks", async ({ daemon }) => {
    await live(daemon);
    const { body } = await daemon.get("/metrics");
    const value = (name: string, labels: Record<string, string>) => {
      const wanted = Object.entries(labels).map(([key, label]) => `${key}="${label}"`);
      const line = body
        .split("\n")
        .find((one) => one.startsWith(`${name}{`) && wanted.every((label) => one.includes(label)));
      return Number(line?.split(" ")[1]);
    };
    for (const { name, attachments, ranges } of [BLUE, MOVED, UNDEFINED]) {
      expect(value("holdfast_network_attachments", { network: name })).toBe(attachments);
      for (const range of ranges) {
        const labels = { network: name, subnets: range.subnets.join(",") };
        expect(value("holdfast_network_size_addresses", labels)).toBe(Number(range.size));
        for (const state of ["allocated", "retained", "cooling", "free", "excluded"] as const) {
          expect(value("holdfast_network_addresses", { ...labels, state })).toBe(Number(range[state]));
        }
      }
    }
    expect(body).toMatch(/^holdfast_ready 1$/m);
    expect(body).toMatch(/^holdfast_spool_files{state="waiting"} 0$/m);
    expect(body).toMatch(/^holdfast_spool_files{state="bad"} 0$/m);
    expect(body).toMatch(/^holdfast_waiting_requests 0$/m);
  });

  test("counts requests and refusals by verb", async ({ daemon }) => {
    await daemon.cni("ADD", "c1");
    await daemon.cni("ADD", "c2", { args: "IP=10.10.0.1" });
    await daemon.cni("ADD", "c3", { config: "nonsense" });
    await daemon.cni("DEL", "c1");
    const { body } = await daemon.get("/metrics");
    for (const line of [
      'holdfast_cni_request_duration_seconds_count{verb="ADD",outcome="ok"} 1',
      'holdfast_cni_request_duration_seconds_count{verb="ADD",outcome="refused"} 2',
      'holdfast_cni_request_duration_seconds_count{verb="DEL",outcome="ok"} 1',
      'holdfast_cni_refusals_total{verb="ADD",code="ADDRESS_TAKEN"} 1',
      'holdfast_cni_refusals_total{verb="ADD",code="CONFIG_UNREADABLE"} 1',
    ]) {
      expect(body).toContain(`${line}\n`);
    }
  });

  test("drops the series of a network that is gone", async ({ daemon }) => {
    const definition = nad("blue", network("blue"));
    await apply(daemon, definition);
    expect((await daemon.get("/metrics")).body).toContain('network="blue"');
    await daemon.post("/v1/delete", { objects: [definition] });
    expect((await daemon.get("/metrics")).body).not.toContain('network="blue"');
  });
});

describe("GET /healthz, /readyz, /v1/version, /v1/check", () => {
  test("answer for a daemon that serves", async ({ daemon }) => {
    expect(await daemon.get("/healthz")).toMatchObject({ status: 200, body: "ok\n" });
    expect(await daemon.get("/readyz")).toMatchObject({ status: 200, body: "ready\n" });
    expect((await daemon.get("/v1/version")).json()).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
    expect((await daemon.get("/v1/check")).json()).toEqual({
      findings: [],
      counted: { allocations: 0, attachments: 0, networks: 0, claims: 0 },
    });
  });

  test("the socket is accessible to its owner only", async ({ daemon }) => {
    const { statSync } = await import("node:fs");
    expect((statSync(daemon.socket).mode & 0o777).toString(8)).toBe("600");
  });
});

test("an address of a network that is not defined any more is listed, and can be released", async ({ daemon }) => {
  await live(daemon);
  const released = await daemon.post("/v1/release", {
    network: "undefined",
    address: "10.77.0.1",
    force: true,
  });
  expect(released.json()).toEqual({ addresses: ["10.77.0.1/24"], holder: "claim default/elsewhere" });
  expect(
    addressesOf(await daemon.cni("ADD", "c9", { config: network("undefined", { subnets: "10.77.0.0/24" }) })),
  ).toHaveLength(1);
});

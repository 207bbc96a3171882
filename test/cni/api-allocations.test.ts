import { describe, expect } from "vitest";
import type { ServedDaemon } from "../harness/daemon.ts";
import { network, pod, test } from "./fixtures.ts";
import { apply, claim, withClaim } from "./manifests.ts";

/** `GET /v1/allocations`: who has which address, narrowed down and page by page. */

const NETNS = "/run/netns/c1";

async function live(daemon: ServedDaemon): Promise<void> {
  await apply(
    daemon,
    claim(
      "vm1",
      { ipRequests: ["10.10.0.50"] },
      {
        metadata: {
          name: "vm1",
          ownerReferences: [{ kind: "VirtualMachine", name: "tower", uid: "vm-uid" }],
        },
      },
    ),
    claim("vm2", { ipRequests: ["10.10.0.60"] }, { metadata: { name: "vm2", labels: { "kubevirt.io/vm": "bridge" } } }),
  );
  await daemon.cni("ADD", "c1", { args: pod("uid-1", "web-0"), netns: NETNS });
  await daemon.cni("ADD", "c2", { config: withClaim("vm1"), args: pod("uid-2", "virt-launcher-1") });
  await daemon.cni("ADD", "c3", { config: withClaim("vm2"), args: pod("uid-3", "virt-launcher-2") });
  await daemon.cni("DEL", "c3");
  await daemon.cni("ADD", "c4", { config: network("red", { subnets: "10.10.0.0/24,fd10::/64" }) });
  await daemon.cni("ADD", "c5");
  await daemon.cni("DEL", "c5");
}

async function list(daemon: ServedDaemon, query = ""): Promise<string[]> {
  const answer = await daemon.get(`/v1/allocations${query}`);
  expect(answer.status, answer.body).toBe(200);
  const { items } = answer.json();
  return items.map((one: { network: string; address: string }) => `${one.network} ${one.address}`);
}

const ALL = [
  "blue 10.10.0.1/24",
  "blue 10.10.0.2/24",
  "blue 10.10.0.50/24",
  "blue 10.10.0.60/24",
  "red 10.10.0.1/24",
  "red fd10::1/64",
];

test("an allocation has its owner, its VM and its attachments", async ({ daemon }) => {
  await live(daemon);
  const { items } = (await daemon.get("/v1/allocations?network=blue")).json();
  const since = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  expect(items[0]).toEqual({
    network: "blue",
    address: "10.10.0.1/24",
    state: "Bound",
    owner: { kind: "pod", uid: "uid-1", interface: "eth0", namespace: "default", name: "web-0" },
    vm: null,
    since,
    attachments: [
      {
        containerID: "c1",
        interface: "eth0",
        netns: NETNS,
        node: expect.any(String),
        pod: { namespace: "default", name: "web-0", uid: "uid-1" },
        since,
      },
    ],
  });
  expect(items[1]).toMatchObject({
    address: "10.10.0.2/24",
    state: "Cooling",
    owner: { kind: "container", uid: "c5" },
    attachments: [],
  });
  expect(items[2]).toMatchObject({
    owner: { kind: "claim", name: "vm1" },
    vm: { name: "tower", uid: "vm-uid" },
    attachments: [{ containerID: "c2" }],
  });
  expect(items[3]).toMatchObject({
    owner: { kind: "claim", name: "vm2" },
    vm: { name: "bridge", uid: "" },
    attachments: [],
  });
});

test("every filter selects, alone and together", async ({ daemon }) => {
  await live(daemon);
  const node = (await daemon.get("/v1/allocations")).json().items[0].attachments[0].node;
  const FILTERS: [string, string[]][] = [
    ["", ALL],
    ["?network=red", ["red 10.10.0.1/24", "red fd10::1/64"]],
    ["?network=green", []],
    ["?address=10.10.0.1", ["blue 10.10.0.1/24", "red 10.10.0.1/24"]],
    ["?address=10.10.0.1/24&network=blue", ["blue 10.10.0.1/24"]],
    ["?address=fd10:0::1", ["red fd10::1/64"]],
    ["?address=192.0.2.1", []],
    ["?pod=web-0", ["blue 10.10.0.1/24"]],
    ["?pod=default/web-0", ["blue 10.10.0.1/24"]],
    ["?pod=shop/web-0", []],
    ["?pod=virt-launcher-1", ["blue 10.10.0.50/24"]],
    ["?pod=web", []],
    ["?claim=vm1", ["blue 10.10.0.50/24"]],
    ["?claim=default/vm2", ["blue 10.10.0.60/24"]],
    ["?claim=shop/vm2", []],
    ["?vm=tower", ["blue 10.10.0.50/24"]],
    ["?vm=default/bridge", ["blue 10.10.0.60/24"]],
    [`?node=${node}`, ["blue 10.10.0.1/24", "blue 10.10.0.50/24", "red 10.10.0.1/24", "red fd10::1/64"]],
    ["?node=elsewhere", []],
    [`?node=${node}&vm=tower&network=blue`, ["blue 10.10.0.50/24"]],
    ["?claim=vm1&vm=bridge", []],
  ];
  for (const [query, wanted] of FILTERS) expect(await list(daemon, query), query).toEqual(wanted);
});

describe("pages", () => {
  async function pages(daemon: ServedDaemon, limit: number, query = ""): Promise<string[][]> {
    const found: string[][] = [];
    for (let token: string | undefined; ; ) {
      const path: string = `/v1/allocations?limit=${limit}${query}${token ? `&continue=${token}` : ""}`;
      const answer = (await daemon.get(path)).json();
      found.push(answer.items.map((one: { network: string; address: string }) => `${one.network} ${one.address}`));
      token = answer.continue;
      if (token === undefined) return found;
    }
  }

  test("of every size list everything once, and the last has no token", async ({ daemon }) => {
    await live(daemon);
    for (let limit = 1; limit <= ALL.length + 1; limit++) {
      const found = await pages(daemon, limit);
      expect(found.flat()).toEqual(ALL);
      expect(found).toHaveLength(Math.ceil(ALL.length / limit));
    }
    expect(await pages(daemon, 1, "&network=red")).toEqual([["red 10.10.0.1/24"], ["red fd10::1/64"]]);
    expect(await pages(daemon, 5, "&network=green")).toEqual([[]]);
  });

  test("lose nothing when the allocation that the token names is gone meanwhile", async ({ daemon }) => {
    await live(daemon);
    const first = (await daemon.get("/v1/allocations?limit=1")).json();
    await daemon.post("/v1/release", { network: "blue", address: "10.10.0.1", force: true });
    await daemon.post("/v1/release", { network: "blue", address: "10.10.0.1" });
    const rest = (await daemon.get(`/v1/allocations?continue=${first.continue}`)).json();
    expect(rest.items).toHaveLength(ALL.length - 1);
  });
});

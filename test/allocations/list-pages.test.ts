import { beforeEach, describe, expect, test } from "vitest";
import { newAllocation } from "../../allocations/allocation-object.ts";
import type { AllocationFilter } from "../../allocations/filter.ts";
import type { Page } from "../../allocations/records.ts";
import { listFromApi } from "../../allocations/views.ts";
import { RefusalError } from "../../ipam/refusals.ts";
import { parseCidr, parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, namespacedPath } from "../../kube/objects.ts";
import { listClaims } from "../../store/cluster/network-looks.ts";
import { FakeKubeApi } from "../harness/kube-fake/client/fake-kube-api.ts";
import type { Fate, Link } from "../harness/kube-fake/client/link.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";

// Lists of a cluster: read once for all pages together, whatever happens between two of them.

const NETWORKS = ["amber", "blue", "coral", "drab", "ecru", "fawn"];
const PER_NETWORK = 200;
const ALL = NETWORKS.flatMap((network) =>
  Array.from({ length: PER_NETWORK }, (_, index) => `${network} 10.0.${index >> 7}.${index & 127}/16`),
);
/** The last 72 addresses of each network. */
const UPPER = parseCidr("10.0.1.0/24");
const isUpper = (place: string) => place.includes(" 10.0.1.");
const SINCE = "2026-01-01T00:00:00Z";

let memory: KubeInMemory;
let link: Link;
let api: FakeKubeApi;
/** What each request for a page has brought. */
let read: number[];

beforeEach(() => {
  memory = new KubeInMemory();
  link = {};
  read = [];
  const { server, clock } = memory;
  api = new FakeKubeApi({ server: () => server, clock, link, onList: ({ objects }) => read.push(objects) });
});

/** `network address`, of a pod on a node. */
function put(place: string, node = "node-a"): void {
  const [network = "", address = ""] = place.split(" ");
  const uid = `uid of ${place}`;
  const pod = { namespace: "shop", name: `pod-${address.split("/")[0]}`, uid };
  const attachment = { containerID: uid, interface: "net1", node, pod, since: SINCE };
  const holder = { owner: { kind: "Pod", ...pod, interface: "net1" } as const, attachment };
  memory.put(ALLOCATIONS_PATH, newAllocation(network, parseInterfaceAddress(address), holder, SINCE));
}

function remove(place: string): void {
  memory.remove(`${ALLOCATIONS_PATH}/${nameOf(place)}`);
}

function nameOf(place: string): string {
  const [network = "", address = ""] = place.split(" ");
  return allocationName(network, parseInterfaceAddress(address).address);
}

const byName = (a: string, b: string) => (nameOf(a) < nameOf(b) ? -1 : 1);

/** All pages; `between` is called before each but the first. */
async function pages<Item>(
  pageAfter: (token: string | undefined) => Promise<Page<Item>>,
  between: (page: number) => void = () => {},
): Promise<Item[][]> {
  const all: Item[][] = [];
  for (let token: string | undefined; ; ) {
    const page = await pageAfter(token);
    all.push([...page.items]);
    token = page.continue;
    if (token === undefined) return all;
    between(all.length);
  }
}

async function listed(filter: AllocationFilter = {}, limit = 5_000, between?: (page: number) => void) {
  const all = await pages((token) => listFromApi(api, filter, { limit, continue: token }), between);
  return all.map((items) => items.map(({ network, address }) => `${network} ${address}`));
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);

test("all pages together read each object once", async () => {
  for (const place of ALL) put(place);
  const all = await listed();
  expect(all.map(({ length }) => length)).toEqual([500, 500, 200]);
  expect(all.flat()).toEqual(ALL.toSorted(byName));
  expect(read).toEqual([500, 500, 200]);
});

test("networks come one after the other, each in the order of its addresses", async () => {
  for (const place of ALL) put(place);
  const found = (await listed()).flat();
  const networks = found.map((place) => place.split(" ")[0] ?? "");
  const blocks = networks.filter((network, index) => network !== networks[index - 1]);
  expect(blocks.toSorted()).toEqual(NETWORKS);
  for (const network of NETWORKS)
    expect(found.filter((place) => place.startsWith(`${network} `))).toEqual(
      ALL.filter((place) => place.startsWith(`${network} `)),
    );
});

test("what fits on one page is in order of networks' names and addresses", async () => {
  const few = NETWORKS.flatMap((network) => [`${network} 10.0.0.9/16`, `${network} 10.0.0.10/16`]);
  for (const place of [...few, "blue fd00::1/64"].toSorted()) put(place);
  expect(await listed()).toEqual([few.toSpliced(4, 0, "blue fd00::1/64")]);
  expect(few.toSorted(byName)).not.toEqual(few);
});

test("pages of any length have everything once", async () => {
  for (const place of ALL.slice(0, 430)) put(place);
  for (const limit of [1, 7, 100, 429]) {
    read = [];
    const all = await listed({}, limit);
    expect(sum(read)).toBe(430);
    expect(all.flat()).toEqual(ALL.slice(0, 430).toSorted(byName));
    expect(all.map(({ length }) => length).slice(0, -1)).toEqual(
      Array.from({ length: Math.ceil(430 / limit) - 1 }, () => limit),
    );
  }
});

test("a filter that few objects pass has no page without an item, and reads each object once", async () => {
  const few = ALL.toSorted(byName).filter((_, index) => [3, 499, 1_150].includes(index));
  for (const place of ALL) put(place, few.includes(place) ? "node-b" : "node-a");
  expect(await listed({ node: "node-b" })).toEqual([few.slice(0, 2), few.slice(2)]);
  expect(read).toEqual([500, 500, 200]);
  expect(await listed({ node: "node-c" })).toEqual([[]]);
});

test("pages of a filter end in the middle of a page of the server", async () => {
  for (const place of ALL) put(place);
  for (const limit of [3, 40, 71]) {
    const all = await listed({ subnet: UPPER }, limit);
    expect(all.flat()).toEqual(ALL.filter(isUpper).toSorted(byName));
    expect(Math.max(...all.map(({ length }) => length))).toBe(limit);
    expect(Math.min(...all.map(({ length }) => length))).toBeGreaterThan(0);
  }
});

test("of one network only its objects are read", async () => {
  for (const place of ALL) put(place);
  expect((await listed({ network: "coral" })).flat()).toEqual(ALL.filter((place) => place.startsWith("coral ")));
  expect(sum(read)).toBe(PER_NETWORK);
});

describe("what is there all the time is listed once", () => {
  const sorted = ALL.toSorted(byName);
  const gone = [sorted[100], sorted[900]] as string[];
  const kept = sorted.filter((place) => !gone.includes(place));
  const change = (page: number) => {
    if (page !== 1) return;
    for (const place of gone) remove(place);
    put(`${sorted[0]?.split(" ")[0]} 10.0.200.1/16`);
    put("grey 10.0.0.1/16");
  };
  const keptIn = (all: readonly string[][]) => all.flat().filter((place) => kept.includes(place));

  beforeEach(() => {
    for (const place of ALL) put(place);
  });

  test("when others come and go between two pages", async () => {
    expect(keptIn(await listed({}, 5_000, change))).toEqual(kept);
    expect(keptIn(await listed({}, 90, change))).toEqual(kept);
  });

  test("when the version of the first page is forgotten: the server says where to go on", async () => {
    const all = await listed({}, 5_000, (page) => {
      change(page);
      memory.server.etcd.compact();
    });
    expect(keptIn(all)).toEqual(kept);
    expect(all.flat()).not.toContain(gone[1]);
    expect(sum(read)).toBeLessThanOrEqual(ALL.length + 1);
  });

  test("when that happens in the middle of a page of the server", async () => {
    const all = await listed({ subnet: UPPER }, 5, (page) => {
      change(page);
      memory.server.etcd.compact();
    });
    expect(keptIn(all)).toEqual(kept.filter(isUpper));
  });

  test("when a server does not say where to go on, and it begins anew", async () => {
    let expired = 0;
    link.fate = ({ query }): Fate => {
      if (query.continue === undefined || expired > 0) return {};
      expired += 1;
      return { status: 410 };
    };
    const all = await listed({}, 5_000, change);
    expect(keptIn(all)).toEqual(kept);
    expect(expired).toBe(1);
  });

  test("when a page breaks off: it is read again, and no other", async () => {
    let cuts = 0;
    link.fate = ({ query }): Fate => {
      if (query.continue === undefined || cuts > 0) return {};
      cuts += 1;
      return { cutAfter: 321 };
    };
    expect((await listed()).flat()).toEqual(sorted);
    expect(read).toEqual([500, 321, 500, 200]);
  });
});

test("a token that the server does not know is refused as a whole", async () => {
  put("blue 10.0.0.1/16");
  const token = Buffer.from(JSON.stringify(["blue", "040a000001"])).toString("base64url");
  const refused = await listFromApi(api, {}, { limit: 5, continue: token }).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(RefusalError);
  expect((refused as RefusalError).refusal).toMatchObject({
    code: "REQUEST_INVALID",
    message: expect.stringContaining("ask for the first page again"),
  });
});

test("claims are read once too, by namespace and name", async () => {
  const names = Array.from({ length: 1_100 }, (_, index) => `${index % 2 === 0 ? "shop" : "system"}/c${index}`);
  for (const [index, key] of names.entries()) {
    const [namespace = "", name = ""] = key.split("/");
    const spec = { network: index % 11 === 0 ? "blue" : "red", interface: "" };
    memory.put(namespacedPath(CLAIMS_PATH, namespace), { metadata: { namespace, name }, spec });
  }
  const networks = new Set(["red"]);
  const all = await pages((token) => listClaims(api, networks, {}, { limit: 5_000, continue: token }));
  expect(all.flat().map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)).toEqual(
    names.filter((_, index) => index % 11 !== 0).toSorted(),
  );
  expect(read).toEqual([500, 500, 100]);
});

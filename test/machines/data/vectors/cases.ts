/**
 * What Metal3's own tests fix about indexes, data objects and their Secrets. `null` for what is absent.
 */

// biome-ignore lint/suspicious/noExplicitAny: parts of objects of every kind
type Any = any;

/** Data objects and claims of a template `abc`, and the indexes that follow. */
export interface IndexCase {
  readonly what: string;
  readonly claims: readonly {
    readonly name: string;
    readonly cluster?: string;
    readonly has?: string;
    /** It is being deleted. */
    readonly isGoing?: boolean;
  }[];
  readonly datas: readonly { readonly name: string; readonly index: number; readonly claim: string }[];
  readonly indexes: Readonly<Record<string, number>>;
}

export const INDEX_CASES: readonly IndexCase[] = [
  { what: "nothing is there", claims: [], datas: [], indexes: {} },
  {
    what: "two clusters share the index space of a template",
    claims: [
      { name: "cluster-a-claim-0", cluster: "cluster-a", has: "abc-0" },
      { name: "cluster-b-claim-0", cluster: "cluster-b", has: "abc-1" },
      { name: "cluster-a-claim-1", cluster: "cluster-a" },
    ],
    datas: [
      { name: "abc-0", index: 0, claim: "cluster-a-claim-0" },
      { name: "abc-1", index: 1, claim: "cluster-b-claim-0" },
    ],
    indexes: { "cluster-a-claim-0": 0, "cluster-b-claim-0": 1, "cluster-a-claim-1": 2 },
  },
  {
    what: "a claim that has an index keeps it",
    claims: [{ name: "c" }],
    datas: [{ name: "abc-0", index: 0, claim: "c" }],
    indexes: { c: 0 },
  },
  {
    what: "the next index after the only one",
    claims: [{ name: "c" }, { name: "bcd", has: "abc-0" }],
    datas: [{ name: "abc-0", index: 0, claim: "bcd" }],
    indexes: { bcd: 0, c: 1 },
  },
  {
    what: "the gap before higher ones",
    claims: [
      { name: "c" },
      { name: "bcd", has: "abc-0" },
      { name: "efg", has: "abc-2" },
      { name: "hij", has: "abc-3" },
    ],
    datas: [
      { name: "abc-0", index: 0, claim: "bcd" },
      { name: "abc-2", index: 2, claim: "efg" },
      { name: "abc-3", index: 3, claim: "hij" },
    ],
    indexes: { bcd: 0, c: 1, efg: 2, hij: 3 },
  },
  {
    what: "a claim that is gone, and its data object with it",
    claims: [],
    datas: [],
    indexes: {},
  },
  {
    what: "the data object that a claim which is being deleted names, whatever it is called",
    claims: [{ name: "former", has: "error-42", isGoing: true }],
    datas: [{ name: "error-42", index: 0, claim: "former" }],
    indexes: {},
  },
];

/** One machine M3M with host BMH in namespace shop; what becomes of its data object. */
export interface SecretCase {
  readonly what: string;
  readonly template: object;
  /** false: the claim has no owner. */
  readonly owned?: boolean;
  readonly host?: boolean;
  readonly outcome: "ready" | "waits" | "error";
  readonly secrets?: Readonly<Record<string, string>>;
}

const BOTH = {
  metaData: { strings: [{ key: "String-1", value: "String-1" }] },
  networkData: {
    links: {
      ethernets: [{ type: "phy", id: "eth0", mtu: 1500, macAddress: { string: "12:34:56:78:9A:BC" } }],
    },
  },
};

export const SECRET_CASES: readonly SecretCase[] = [
  {
    what: "a claim that nobody owns is an error, not a wait",
    template: {},
    owned: false,
    outcome: "error",
  },
  {
    what: "a template without parts needs no Secret",
    template: {},
    outcome: "ready",
    secrets: {},
  },
  {
    what: "both parts are rendered byte by byte",
    template: BOTH,
    host: true,
    outcome: "ready",
    secrets: {
      "m3m-metadata": "String-1: String-1\nproviderid: shop/bmh/m3m\n",
      "m3m-networkdata":
        "links:\n- ethernet_mac_address: 12:34:56:78:9A:BC\n  id: eth0\n  mtu: 1500\n  type: phy\nnetworks: []\nservices: []\n",
    },
  },
  { what: "without a host it waits", template: BOTH, outcome: "waits" },
];

/** An IPAddressClaim that is there already, and whether it is waited for. */
export const CLAIM_CASES: readonly { readonly what: string; readonly status: Any }[] = [
  { what: "it has no address", status: {} },
  {
    what: "its IPAddress does not exist",
    status: { addressRef: { name: "abc-192.168.0.11" } },
  },
];

/** Data objects that Metal3's admission refuses, which Holdfast does not have: they are not acted on. */
export const REFUSED_DATA: readonly { readonly name: string; readonly index: number }[] = [{ name: "abc-0", index: 1 }];

/** Templates, and what Metal3's admission says; null: it takes them. */
export const TEMPLATE_CASES: readonly {
  readonly what: string;
  readonly spec: object;
  readonly problem: string | null;
}[] = [
  { what: "an empty one", spec: {}, problem: null },
  {
    what: "one with a pool by an annotation",
    spec: {
      networkData: {
        networks: {
          ipv6: [
            {
              id: "test",
              link: "eth0",
              fromPoolAnnotation: { object: "machine", annotation: "ippool.metal3.io/provisioning" },
            },
          ],
        },
      },
    },
    problem: null,
  },
  {
    what: "one with a network without a pool",
    spec: { networkData: { networks: { ipv6: [{ id: "test", link: "eth0" }] } } },
    problem: "fromPoolRef needs to contain a reference to an IPPool",
  },
  {
    what: "one with an interface that is named",
    spec: {
      metaData: { fromHostInterfaces: [{ key: "eth0-mac", fromBootMAC: false, interface: "eth0" }] },
    },
    problem: null,
  },
  {
    what: "one with an interface that is not named",
    spec: { metaData: { fromHostInterfaces: [{ key: "eth0-mac" }] } },
    problem: "interface must be specified when fromBootMAC is false",
  },
  { what: "one with a cluster's name alone", spec: { clusterName: "test-cluster" }, problem: null },
];

import { beforeEach, describe, expect, test, vi } from "vitest";
import { PodDirectory } from "../../claims/pod-directory.ts";
import { projectSweptPod } from "../../claims/reasons/fact-views.ts";
import { projectOvnPod } from "../../identity/sources/ovn/objects.ts";
import * as address from "../../ipam/space/address.ts";
import { statusAddresses } from "../../kube/views/held-addresses.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { pod } from "./objects.ts";

// Whoever may annotate a pod can write thousands of addresses. What that costs is counted in addresses that are looked
// at.

const looks = [vi.spyOn(address, "parseAddress"), vi.spyOn(address, "sameAddress"), vi.spyOn(address, "formatAddress")];
const looked = () => looks.reduce((sum, { mock }) => sum + mock.calls.length, 0);
let bytesRead = 0;
const parse = JSON.parse;
vi.spyOn(JSON, "parse").mockImplementation((text, reviver) => {
  bytesRead += String(text).length;
  return parse(text, reviver);
});

beforeEach(() => {
  for (const look of looks) look.mockClear();
  bytesRead = 0;
});

/** What is done with one address: reading and writing it. */
const LOOKS_PER_ADDRESS = 4;
const ADDRESSES_MAX = 512;
const BUDGET = LOOKS_PER_ADDRESS * ADDRESSES_MAX;

const ips = Array.from({ length: 12_000 }, (_, index) => `10.7.${index >> 8}.${index & 255}`);
const STATUS = "k8s.v1.cni.cncf.io/network-status";
const POD_NETWORKS = "k8s.ovn.org/pod-networks";
const attacks: [string, Record<string, string>][] = [
  ["12,000 addresses of one interface", { [STATUS]: JSON.stringify([{ name: "a/b", interface: "net1", ips }]) }],
  [
    "4,000 interfaces with an address each",
    {
      [STATUS]: JSON.stringify(ips.slice(0, 4_000).map((ip) => ({ name: "a/b", interface: "net1", ips: [ip] }))),
    },
  ],
  [
    "12,000 addresses of OVN-Kubernetes",
    { [POD_NETWORKS]: JSON.stringify({ "a/b": { ip_addresses: ips.map((ip) => `${ip}/16`) } }) },
  ],
  [
    "3,500 networks of OVN-Kubernetes, and the addresses of each reported",
    {
      [POD_NETWORKS]: JSON.stringify(
        Object.fromEntries(ips.slice(0, 3_500).map((ip, index) => [`a/n${index}`, { ip_address: `${ip}/16` }])),
      ),
      [STATUS]: JSON.stringify(ips.slice(0, 1_000).map((ip, index) => ({ name: `a/n${index}`, ips: [ip] }))),
    },
  ],
];

describe.each(attacks)("a pod that reports %s", (_, annotations) => {
  const object = pod({ metadata: { annotations } });
  const annotated = Object.values(annotations).join("").length;
  const api = new KubeInMemory();

  test("costs the controller a bounded number of parsed addresses, and is marked as cut", () => {
    expect(annotated).toBeGreaterThan(100_000);
    const swept = projectSweptPod(object);
    expect(swept.addresses.length).toBeGreaterThan(0);
    expect(swept.addresses.length).toBeLessThanOrEqual(ADDRESSES_MAX);
    expect(swept.addressesCut).toBe(true);
    expect(looked()).toBeGreaterThan(0);
    expect(looked()).toBeLessThanOrEqual(BUDGET);
    expect(bytesRead).toBeLessThanOrEqual(annotated);
  });

  test("is read once by a daemon, however many questions a guest asks", () => {
    const view = projectPod(object, { addresses: true });
    const directory = new PodDirectory(api, () => view);
    const name = { namespace: view.namespace, name: view.name, uid: view.uid };
    for (let question = 0; question < 100; question += 1) directory.reportedMac(name, "net1");
    expect(looked()).toBeLessThanOrEqual(BUDGET);
    expect(bytesRead).toBeLessThanOrEqual(annotated);
  });

  test("costs a metadata server a bounded amount of reading", () => {
    projectOvnPod(object);
    // It reads what OVN-Kubernetes wrote twice: as networks, and as addresses.
    expect(looked()).toBeLessThanOrEqual(2 * BUDGET + 2 * 3_500);
    expect(bytesRead).toBeLessThanOrEqual(2 * annotated);
  });
});

test("the number of reported problems is bounded", () => {
  const wrong = JSON.stringify([{ name: "a/b", ips: ips.map((ip) => `${ip}.9`) }, ...ips]);
  const { held, problems, cut } = statusAddresses(
    projectPod(pod({ metadata: { annotations: { [STATUS]: wrong } } }), { addresses: true }),
  );
  expect({ held, cut }).toEqual({ held: [], cut: true });
  expect(problems.length).toBeLessThanOrEqual(20);
});

test("a pod with exactly the largest number of addresses is read whole", () => {
  const annotations = { [STATUS]: JSON.stringify([{ name: "a/b", ips: ips.slice(0, ADDRESSES_MAX) }]) };
  const swept = projectSweptPod(pod({ metadata: { annotations } }));
  expect(swept.addresses).toHaveLength(ADDRESSES_MAX);
  expect(swept.addressesCut).toBe(false);
});

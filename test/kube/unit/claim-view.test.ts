import { describe, expect, test } from "vitest";
import { formatInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { CLAIM_LIST_MAX, listedAddresses, projectClaim } from "../../../kube/views/claim-view.ts";
import { claim, owner } from "../../claims/objects.ts";

test("a new claim has its spec and no addresses", () => {
  expect(projectClaim(claim())).toEqual({
    key: "shop/vm-a.blue",
    namespace: "shop",
    name: "vm-a.blue",
    uid: "uid-1",
    resourceVersion: "7",
    creationTimestamp: "2026-11-20T10:00:00Z",
    deletionTimestamp: null,
    network: "blue",
    ips: [],
    hasStatus: false,
    ipRequests: [],
    ownerPod: null,
    conditions: [],
    owners: [],
    vm: null,
  });
});

describe("the view of a claim keeps", () => {
  const condition = {
    type: "IPsAllocated",
    status: "True",
    reason: "x",
    message: "",
    lastTransitionTime: "t",
  };
  const vm = owner("VirtualMachine", "vm-1");
  const label = { "kubevirt.io/vm": "vm-b" };
  test.each([
    [
      claim({ status: { ips: ["10.0.0.5/24"] } }),
      { ips: ["10.0.0.5/24"], ownerPod: null, conditions: [] },
      "a definition with addresses alone",
    ],
    [
      claim({ status: { ips: [], ownerPod: { name: "p" }, conditions: [condition] } }),
      { ips: [], ownerPod: "p", conditions: [condition] },
      "one with everything",
    ],
    [claim({ status: { ips: [], ownerPod: "p" } }), { ownerPod: "p" }, "the pod as a text"],
    [
      claim({ status: { ips: [], ownerPod: {}, conditions: null } }),
      { ownerPod: null, conditions: [] },
      "empty fields",
    ],
    [
      claim({ status: { ips: null, conditions: [null, 7, condition] } }),
      { ips: [], conditions: [condition] },
      "conditions that are none",
    ],
    [claim({ status: { ips: ["x", 7, { a: 1 }] } }), { ips: ["x", "7", '{"a":1}'] }, "nonsense stays visible"],
    [claim({ status: { ips: "10.0.0.5/24" } }), { ips: ["10.0.0.5/24"] }, "so does an address that is not in a list"],
    [claim({ spec: { ipRequests: ["10.0.0.9"] } }), { ipRequests: ["10.0.0.9"] }, "requests"],
    [
      claim({ metadata: { ownerReferences: [vm], labels: label } }),
      { owners: [vm], vm: { name: "vm-a", uid: "vm-1" } },
      "the owner goes before the label",
    ],
    [
      claim({ metadata: { ownerReferences: [owner("VirtualMachineInstance", "vmi-1")] } }),
      { vm: { name: "vm-a", uid: "vmi-1" } },
      "a VMI without VM",
    ],
    [
      claim({ metadata: { ownerReferences: [owner("Job", "j")], labels: label } }),
      { vm: { name: "vm-b", uid: "" } },
      "the label, where no VM owns it",
    ],
    [claim({ metadata: { labels: { "kubevirt.io/vm": "" } } }), { vm: null }, "an empty label"],
    [claim({ status: {} }), { hasStatus: false }, "a status in which nobody has written"],
    [claim({ status: { ips: [] } }), { hasStatus: true, ips: [] }, "a list that somebody has emptied"],
    [claim({ status: { ownerPod: { name: "p" } } }), { hasStatus: true, ips: [] }, "a status without a list"],
    [
      claim({ metadata: { deletionTimestamp: "2026-11-20T11:00:00Z" } }),
      { deletionTimestamp: "2026-11-20T11:00:00Z" },
      "being deleted",
    ],
  ])("case %#", (object, expected, reason) => {
    expect(projectClaim(object), reason).toMatchObject(expected);
  });
});

test.each([
  [null, "nothing"],
  [{ metadata: {} }, "no metadata"],
  [claim({ spec: { network: undefined } }), "no network"],
  [{ ...claim(), status: [] }, "a status that is a list"],
])("%j is refused as no claim", (object, _reason) => {
  expect(() => projectClaim(object)).toThrow(/^IPAMClaim/);
});

describe("the addresses that a claim's status lists", () => {
  const view = (...ips: unknown[]) => projectClaim(claim({ status: { ips } }));

  test.each([
    [[], [], "none yet"],
    [["10.0.0.5/24", "fd10::5/64"], ["10.0.0.5/24", "fd10::5/64"], "as they should be, in their order"],
    [["FD10:0::05/64"], ["fd10::5/64"], "another spelling of the same"],
    [["10.0.0.5/24", "10.0.0.5/16"], ["10.0.0.5/24", "10.0.0.5/16"], "one with two prefix lengths"],
    [["10.0.0.5", "10.0.0.6/24"], ["10.0.0.6/24"], "no mask"],
    [["10.0.0.05/24", "10.0.0.6/24"], ["10.0.0.6/24"], "a spelling with two meanings"],
    [["10.0.0.5/33"], [], "no such mask"],
    [["", "x", { ip: "10.0.0.5/24" }, "10.0.0.6/24"], ["10.0.0.6/24"], "nothing, nonsense, and no text"],
  ])("%j", (ips, expected, _reason) => {
    expect(listedAddresses(view(...ips)).map(formatInterfaceAddress)).toEqual(expected);
  });

  test("of many entries the first, malformed ones among them", () => {
    const ips = Array.from({ length: CLAIM_LIST_MAX + 4 }, (_, at) => (at === 1 ? "x" : `10.0.0.${at}/24`));
    const last = `10.0.0.${CLAIM_LIST_MAX - 1}/24`;
    const listed = listedAddresses(view(...ips)).map(formatInterfaceAddress);
    expect([listed.length, listed.at(-1)]).toEqual([CLAIM_LIST_MAX - 1, last]);
  });
});

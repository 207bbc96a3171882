/** What the pod directory reads of the VM behind a launcher pod, once for each VMI. */
import { beforeEach, describe, expect, test } from "vitest";
import { PodDirectory } from "../../claims/pod-directory.ts";
import type { KubeRequest } from "../../kube/kube-api.ts";
import { projectPod } from "../../kube/views/pod-view.ts";
import { readUuid } from "../../kube/views/vmi-view.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { owner } from "./objects.ts";

const VMIS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances";
const VMS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines";
const FIRMWARE = "5d307ca9-b3ef-428c-8861-06e72d69f223";
const DEADLINE_MS = Number.POSITIVE_INFINITY;

const firmware = (uuid: unknown) => ({ domain: { firmware: { uuid } } });
const launcher = projectPod({
  metadata: {
    namespace: "shop",
    name: "virt-launcher-vm1-x",
    uid: "pod-1",
    resourceVersion: "1",
    creationTimestamp: "2026-11-20T10:00:00Z",
    ownerReferences: [owner("VirtualMachineInstance", "vmi-1", { name: "vm1" })],
  },
  spec: {},
  status: {},
});

let api: KubeInMemory;
let requests: KubeRequest[];
let pods: PodDirectory;

beforeEach(() => {
  api = new KubeInMemory();
  requests = [];
  api.before = (request) => void requests.push(request);
  pods = new PodDirectory(api, () => undefined);
});

function vmi(spec: object, uid = "vmi-1", owners: object[] = [owner("VirtualMachine", "vm-1", { name: "the-vm" })]) {
  api.put(VMIS, { metadata: { namespace: "shop", name: "vm1", uid, ownerReferences: owners }, spec });
}

test("name, UIDs and firmware UUID of a VMI are read once, because they never change", async () => {
  vmi(firmware(FIRMWARE.toUpperCase()));
  const facts = { namespace: "shop", name: "the-vm", uid: "vm-1", vmiUid: "vmi-1", firmwareUuid: FIRMWARE };
  expect(await pods.vmFacts(launcher, DEADLINE_MS)).toEqual({ kubevirt: true, vm: facts });
  api.away = true;
  expect(await pods.vmFacts(launcher, DEADLINE_MS)).toEqual({ kubevirt: true, vm: facts });
  expect(await pods.vmOf(launcher, ["vm-1"], DEADLINE_MS)).toEqual({ kubevirt: true, vmUid: "vm-1" });
  expect(requests).toHaveLength(1);
});

test("a VMI that no VM owns goes by its own name", async () => {
  vmi(firmware(FIRMWARE), "vmi-1", []);
  expect((await pods.vmFacts(launcher, DEADLINE_MS)).vm).toMatchObject({ name: "vm1", uid: "" });
  expect(await pods.vmOf(launcher, [], DEADLINE_MS)).toEqual({ kubevirt: true, vmUid: null });
});

test.for([
  ["was deleted without it", [owner("VirtualMachine", "vm-1", { name: "the-vm" })]],
  ["has not adopted it yet", []],
] as const)("a claim's VM is found although another VM, which %s, is remembered of the VMI", async ([, before]) => {
  vmi(firmware(FIRMWARE), "vmi-1", [...before]);
  await pods.vmFacts(launcher, DEADLINE_MS);
  vmi(firmware(FIRMWARE), "vmi-1", [owner("VirtualMachine", "vm-2", { name: "the-vm" })]);
  expect(await pods.vmOf(launcher, ["vm-2"], DEADLINE_MS)).toEqual({ kubevirt: true, vmUid: "vm-2" });
});

describe("no VM is found, and that is not remembered, when", () => {
  test("another VMI has the name by now", async () => {
    vmi(firmware(FIRMWARE), "vmi-2");
    expect(await pods.vmFacts(launcher, DEADLINE_MS)).toEqual({ kubevirt: true, vm: null });
    vmi(firmware(FIRMWARE));
    expect((await pods.vmFacts(launcher, DEADLINE_MS)).vm).not.toBeNull();
  });

  test("the VMI is gone", async () => {
    expect(await pods.vmFacts(launcher, DEADLINE_MS)).toEqual({ kubevirt: true, vm: null });
  });

  test("KubeVirt is gone", async () => {
    api.missing.add(VMIS);
    expect(await pods.vmFacts(launcher, DEADLINE_MS)).toEqual({ kubevirt: false, vm: null });
  });
});

test.for([
  [FIRMWARE, FIRMWARE],
  [FIRMWARE.toUpperCase(), FIRMWARE],
  [undefined, null],
  [null, null],
  ["", null],
  [42, null],
  [`${FIRMWARE} `, null],
  [FIRMWARE.replaceAll("-", ""), null],
  [`{${FIRMWARE}}`, null],
  [`${FIRMWARE}\r\nX-Tenant-ID: admin`, null],
])("UUID %#", ([given, read]) => {
  expect(readUuid(given)).toBe(read);
});

test("a stopped VM's firmware UUID is that of its template, if the UID is the same VM's", async () => {
  api.put(VMS, { metadata: { name: "vm1", uid: "vm-1" }, spec: { template: { spec: firmware(FIRMWARE) } } });
  const ask = (name: string, uid: string) => pods.firmwareUuidOfVm({ namespace: "shop", name, uid }, DEADLINE_MS);
  expect(await ask("vm1", "vm-1")).toBe(FIRMWARE);
  expect(await ask("vm1", "")).toBe(FIRMWARE);
  expect(await ask("vm1", "vm-2")).toBeNull();
  expect(await ask("vm2", "vm-1")).toBeNull();
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiAway } from "../../kube/kube-api.ts";
import type { KubeTenantSource } from "../../metadata/tenant/kube-tenant-source.ts";
import { ApiProxy } from "../harness/api-proxy.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { NODE_LABEL, Tenants, type TenantVm, userDataOf } from "./tenants.ts";

/*
 * What a node's metadata server asks the API server for: two watches, whatever there is, and what guests ask for, by
 * name.
 */

const FIRMWARE = "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11";
const VMIS = /virtualmachineinstances/;

let tenants: Tenants;

beforeAll(async () => {
  tenants = await Tenants.start();
});
afterAll(() => tenants?.stop());

async function label(guest: TenantVm, node: string | null): Promise<void> {
  const { namespace, name } = guest.vmi.metadata;
  const path = pathOf(namespace, "virtualmachineinstances", name, "kubevirt.io/v1");
  await tenants.cluster.api.patch(path, { metadata: { labels: { [NODE_LABEL]: node } } });
}

function startVm(namespace: string, name: string, labels: Readonly<Record<string, string>> | null = null) {
  return tenants.vm(namespace, name, {
    annotations: { hostname: `${name}.example` },
    vmi: {
      ...(labels === null ? {} : { metadata: { labels } }),
      spec: { domain: { firmware: { uuid: FIRMWARE } } },
    },
  });
}

async function firmwareOf(source: KubeTenantSource, { identity }: TenantVm): Promise<string | null> {
  return (await source.viewOf(identity)).firmwareUuid;
}

test("a node has two watches, of namespaces and of its own VMIs, however many namespaces its VMs are in", async () => {
  const proxy = await ApiProxy.start(tenants.cluster);
  const source = await tenants.source({}, proxy.url);
  try {
    for (let n = 0; n < 5; n += 1) {
      const namespace = await tenants.namespace();
      await tenants.secret(namespace, "boot", { userdata: namespace });
      const guest = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
      expect(await userDataOf(source, guest)).toBe(namespace);
    }
    const watches = () => proxy.log.filter(({ path }) => path.includes("watch=true")).map(({ path }) => path);
    await tenants.until(() => watches().length >= 2, "both watches");
    const collections = watches().map((path) => path.split("?")[0]);
    expect(collections.sort()).toEqual(["/api/v1/namespaces", "/apis/kubevirt.io/v1/virtualmachineinstances"]);
    const ofVmis = watches().find((path) => VMIS.test(path)) ?? "";
    expect(new URL(ofVmis, "http://x").searchParams.get("labelSelector")).toBe(`${NODE_LABEL}=node-a`);
  } finally {
    await source.stop();
    await proxy.stop();
  }
});

test("a VMI of this node is served from the watch without a read", async () => {
  const namespace = await tenants.namespace();
  const guest = await startVm(namespace, "web");
  const proxy = await ApiProxy.start(tenants.cluster);
  const source = await tenants.source({}, proxy.url);
  try {
    await tenants.until(() => proxy.log.some(({ path }) => /instances\?.*watch=true/.test(path)), "the watch");
    expect(await firmwareOf(source, guest)).toBe(FIRMWARE);
    expect(proxy.log.filter(({ path }) => path.endsWith("/virtualmachineinstances/web"))).toEqual([]);
  } finally {
    await source.stop();
    await proxy.stop();
  }
});

test.each([
  ["whose label still names the source of its migration", { [NODE_LABEL]: "node-z" }],
  ["that has no label yet", {}],
])("a VMI %s is answered, and read once in three seconds", async (_, labels) => {
  const namespace = await tenants.namespace();
  const guest = await startVm(namespace, "web", labels);
  const proxy = await ApiProxy.start(tenants.cluster);
  const source = await tenants.source({}, proxy.url);
  try {
    const startMs = tenants.clock.monotonicMs();
    for (let n = 0; n < 28; n += 1)
      expect(await source.viewOf(guest.identity)).toMatchObject({
        firmwareUuid: FIRMWARE,
        hostname: "web.example",
      });
    const periods = 1 + Math.ceil((tenants.clock.monotonicMs() - startMs) / 3_000);
    const reads = proxy.log.filter(({ path }) => path.endsWith("/virtualmachineinstances/web"));
    expect(reads.length).toBeGreaterThan(0);
    expect(reads.length).toBeLessThanOrEqual(periods);
  } finally {
    await source.stop();
    await proxy.stop();
  }
});

test("source and target of a migration both answer, before, while and after the label moves", async () => {
  const namespace = await tenants.namespace();
  const guest = await startVm(namespace, "web");
  const [from, to] = [await tenants.source(), await tenants.source({ node: "node-b" })];
  const steps = [async () => {}, () => label(guest, null), () => label(guest, "node-b")];
  for (const step of steps) {
    await step();
    for (let n = 0; n < 10; n += 1) {
      expect(await Promise.all([firmwareOf(from, guest), firmwareOf(to, guest)])).toEqual([FIRMWARE, FIRMWARE]);
      await tenants.advance(20);
    }
  }
});

test("a recreated VM is served from its own VMI, even before the watch shows it", async () => {
  const namespace = await tenants.namespace();
  const source = await tenants.source();
  const old = await startVm(namespace, "web");
  expect(await firmwareOf(source, old)).toBe(FIRMWARE);
  await tenants.removeVm(old);
  const guest = await tenants.vm(namespace, "web");
  expect(await firmwareOf(source, guest)).toBeNull();
});

test("an edit of the VM's annotations takes effect within three seconds", async () => {
  const namespace = await tenants.namespace();
  const source = await tenants.source();
  const guest = await startVm(namespace, "web");
  const hostname = async () => (await source.viewOf(guest.identity)).hostname;
  expect(await hostname()).toBe("web.example");
  await tenants.annotateVm(guest, { hostname: "other.example" });
  await tenants.until(async () => (await hostname()) === "other.example", "the edit");
});

test.each([
  ["VirtualMachine", "virtualmachines"],
  ["VirtualMachineInstance", "virtualmachineinstances"],
])("while its %s cannot be read a guest gets an error instead of an answer without user-data", async (_, kind) => {
  const namespace = await tenants.namespace();
  const guest = await startVm(namespace, "web");
  await tenants.annotateVm(guest, { hostname: "named" });
  const proxy = await ApiProxy.start(tenants.cluster);
  const withdraw = proxy.rule({
    when: ({ path }) => path.includes(`/${kind}`),
    act: { status: 403, body: {} },
  });
  const source = await tenants.source({ timings: { forbiddenMs: 50 } }, proxy.url);
  try {
    await expect(source.viewOf(guest.identity)).rejects.toThrow(ApiAway);
    withdraw();
    await tenants.until(async () => {
      const view = await source.viewOf(guest.identity).catch(() => null);
      return view?.firmwareUuid === FIRMWARE && view.hostname === "named";
    }, "what the guest is told once it may be read");
  } finally {
    await source.stop();
    await proxy.stop();
  }
});

test("without the right to watch VMIs guests are served by reads, and with it by the watch", async () => {
  const namespace = await tenants.namespace();
  const guest = await startVm(namespace, "web");
  const proxy = await ApiProxy.start(tenants.cluster);
  const withdraw = proxy.rule({
    when: ({ path }) => /virtualmachineinstances\?/.test(path),
    act: { status: 403, body: {} },
  });
  const source = await tenants.source({ timings: { forbiddenMs: 50 } }, proxy.url);
  try {
    expect(await firmwareOf(source, guest)).toBe(FIRMWARE);
    withdraw();
    await tenants.until(() => proxy.log.some(({ path }) => /instances\?.*watch=true/.test(path)), "the watch");
  } finally {
    await source.stop();
    await proxy.stop();
  }
});

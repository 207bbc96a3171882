import { Buffer } from "node:buffer";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectOverHttp } from "../../kube/http/http-kube-api.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import { hashedInterface } from "../../kube/views/vmi-view.ts";
import { createKubeTenantSource } from "../../metadata/tenant/create-kube-tenant-source.ts";
import type { KubeTenantSource } from "../../metadata/tenant/kube-tenant-source.ts";
import { ApiProxy } from "../harness/api-proxy.ts";
import { pathOf } from "../harness/kube-pods.ts";
import { publicKey } from "../metadata/key-pairs.ts";
import { Tenants, type TenantVm, userDataOf } from "./tenants.ts";

/** What is gzip looks like: no text, and it must arrive as it is. */
const BYTES = Buffer.from([0x1f, 0x8b, 0x08, 0x00, 0xff, 0xfe, 0x00, 0x0a]);
const PASSWORDS = "holdfast-guest-passwords";
/** So long a request waits that asks for what is known already. */
const ASK_AGAIN_MS = 1_000;

let tenants: Tenants;
let source: KubeTenantSource;

beforeAll(async () => {
  tenants = await Tenants.start();
  source = await tenants.source();
});
afterAll(() => tenants?.stop());

const userData = (vm: TenantVm, from = source) => userDataOf(from, vm);

test("user-data, vendor-data, keys, free metadata and name come from the objects that the VM's annotations name", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: BYTES, other: "#cloud-config\n" });
  await tenants.configMap(namespace, "all", {
    vendorData: "#cloud-config\n{}\n",
    "alice.pub": `${publicKey("ssh-ed25519", "alice")}\n`,
    role: "db",
  });
  const guest = await tenants.vm(namespace, "web", {
    annotations: {
      "user-data": "secret/boot",
      "vendor-data": "configmap/all",
      "public-keys": "configmap/all/alice.pub",
      meta: "configmap/all/role",
      hostname: "web.example",
    },
  });
  const view = await source.viewOf(guest.identity);
  expect(view.userData).toEqual(BYTES);
  expect(view).toMatchObject({
    vendorData: "#cloud-config\n{}\n",
    publicKeys: [{ name: "alice.pub", data: publicKey("ssh-ed25519", "alice") }],
    meta: { role: "db" },
    hostname: "web.example",
    password: { stored: null },
  });
  expect(await tenants.events(namespace)).toEqual([]);
  await tenants.annotateVm(guest, { "user-data": "secret/boot/other" });
  await tenants.until(async () => (await userData(guest)) === "#cloud-config\n", "the other key");
});

test("an edited or deleted Secret takes effect within three seconds", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "first" });
  const guest = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
  expect(await userData(guest)).toBe("first");
  const path = pathOf(namespace, "secrets", "boot");
  await tenants.cluster.api.patch(path, { stringData: { userdata: "second" } });
  await tenants.until(async () => (await userData(guest)) === "second", "the change");
  await tenants.cluster.api.delete(path);
  await tenants.until(async () => (await userData(guest)) === null, "the deletion");
  expect(await tenants.event(guest, "MetadataUserDataUnavailable")).toContain("Secret boot is absent or has no label");
});

test("an object without the label is not served; the event says how to label it", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "secret!" }, false);
  const guest = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
  expect(await userData(guest)).toBeNull();
  expect(await tenants.event(guest, "MetadataUserDataUnavailable")).toContain(
    "kubectl label secret/boot metadata.holdfast.dev/serve=true",
  );
  const labels = { "metadata.holdfast.dev/serve": "true" };
  await tenants.cluster.api.patch(pathOf(namespace, "secrets", "boot"), { metadata: { labels } });
  await tenants.until(async () => (await userData(guest)) === "secret!", "the labelled Secret");
  await tenants.cluster.api.patch(pathOf(namespace, "secrets", "boot"), {
    metadata: { labels: { "metadata.holdfast.dev/serve": "false" } },
  });
  await tenants.until(async () => (await userData(guest)) === null, "the label to count again");
});

test("a namespace without the RoleBinding serves no content and gets one event, and the binding takes effect when created or deleted", async () => {
  const namespace = await tenants.namespace({ tenant: false });
  const ours = await tenants.source({ timings: { watchSecondsMin: 1, watchSecondsMax: 2 } });
  await tenants.secret(namespace, "boot", { userdata: "hello" });
  const annotations = { "user-data": "secret/boot", meta: "secret/boot" };
  const guests = [
    await tenants.vm(namespace, "web", { annotations }),
    await tenants.vm(namespace, "db", { annotations }),
  ] as const;
  for (const guest of guests) {
    const view = await ours.viewOf(guest.identity);
    expect(view).toMatchObject({ userData: null, meta: {}, password: null });
    expect(view.projectId).not.toBeNull();
  }
  const message = await tenants.event(guests[0], "MetadataForbidden");
  expect(message).toContain(`may not read Secret boot of namespace ${namespace}`);
  expect(message).toContain(`kubectl apply -n ${namespace} -f deploy/metadata/tenant.yaml`);
  await tenants.optIn(namespace);
  await tenants.until(async () => (await userData(guests[0], ours)) === "hello", "the right to count");
  expect(await tenants.events(namespace)).toEqual(["MetadataForbidden"]);
  const bindings = pathOf(namespace, "rolebindings", "holdfast-metadata", "rbac.authorization.k8s.io/v1");
  await tenants.cluster.api.delete(bindings);
  await tenants.until(async () => (await userData(guests[0], ours)) === null, "the withdrawal to count");
});

test("VMs and Secrets of the same name in two namespaces are kept apart", async () => {
  const namespaces = [await tenants.namespace(), await tenants.namespace()];
  const guests = await Promise.all(
    namespaces.map(async (namespace) => {
      await tenants.secret(namespace, "boot", { userdata: `of ${namespace}` });
      return tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
    }),
  );
  const views = await Promise.all(guests.map((guest) => source.viewOf(guest.identity)));
  expect(views.map((view) => view.userData?.toString())).toEqual(namespaces.map((one) => `of ${one}`));
  expect(new Set(views.map((view) => view.projectId)).size).toBe(2);
});

test("the tenant is the namespace's UID or its annotation, unless no header can carry that", async () => {
  const namespace = await tenants.namespace();
  const guest = await tenants.vm(namespace, "web");
  const { uid } = (await tenants.cluster.api.get(`/api/v1/namespaces/${namespace}`)).metadata;
  const project = async () => (await source.viewOf(guest.identity)).projectId;
  const annotate = (text: string) =>
    tenants.cluster.api.patch(`/api/v1/namespaces/${namespace}`, {
      metadata: { annotations: { "metadata.holdfast.dev/tenant-id": text } },
    });
  expect(await project()).toBe(uid);
  await annotate("9b1c0d-tenant");
  await tenants.until(async () => (await project()) === "9b1c0d-tenant", "the annotation");
  await annotate("a, b");
  await tenants.until(async () => (await project()) === uid, "the UID to count again");
  expect(await tenants.event(guest, "MetadataTenantIdInvalid")).toContain('"a, b"');
});

test("a recreated namespace is another tenant without the old one's content", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "old" });
  const old = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
  const before = await source.viewOf(old.identity);
  expect(before.userData?.toString()).toBe("old");
  await tenants.removeVm(old);
  await tenants.cluster.api.delete(`/api/v1/namespaces/${namespace}`);
  await tenants.until(
    async () => (await tenants.cluster.api.find(`/api/v1/namespaces/${namespace}`)) === null,
    "the namespace to go",
    120_000,
  );
  await tenants.kubevirt.createNamespace(namespace);
  await tenants.optIn(namespace);
  const { uid } = (await tenants.cluster.api.get(`/api/v1/namespaces/${namespace}`)).metadata;
  const guest = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
  await tenants.until(async () => (await source.viewOf(guest.identity)).projectId === uid, "the new UID");
  expect(uid).not.toBe(before.projectId);
  expect(await userData(guest)).toBeNull();
});

test("a recreated VM gets none of the old VM's content, even if the watch is silent", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "old" });
  const proxy = await ApiProxy.start(tenants.cluster);
  proxy.rule({ when: ({ path }) => path.includes("watch=true"), act: "silent-watch" });
  const deaf = await tenants.source({}, proxy.url);
  try {
    const old = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
    expect(await userData(old, deaf)).toBe("old");
    await tenants.removeVm(old);
    const guest = await tenants.vm(namespace, "web", { annotations: { hostname: "new" } });
    expect(await deaf.viewOf(guest.identity)).toMatchObject({ userData: null, hostname: "new" });
    // The old one is known to be gone: nothing of the new one's is told in its name.
    expect(await deaf.viewOf({ ...old.identity })).toMatchObject({ hostname: null });
  } finally {
    await deaf.stop();
    await proxy.stop();
  }
});

test("MACs and interface names are those of the running VM, else those of its spec", async () => {
  const namespace = await tenants.namespace();
  const [blue, green] = [hashedInterface("blue"), hashedInterface("green")];
  const guest = await tenants.vm(namespace, "web", {
    interfaces: [
      { interface: blue, network: "blue-network" },
      { interface: "net2", network: "green-network" },
    ],
    vmi: {
      spec: {
        hostname: "web-0",
        subdomain: "shop",
        domain: {
          firmware: { uuid: "5D1A8B1E-7C52-4B7E-9A1F-3F2F1D6B0C11" },
          devices: {
            disks: [{ name: "data" }, { name: "root", bootOrder: 1 }],
            interfaces: [
              { name: "default", masquerade: {} },
              { name: "blue", bridge: {}, macAddress: "02:00:00:00:00:01" },
              { name: "green", bridge: {}, macAddress: "02:00:00:00:00:02" },
              { name: "red", bridge: {} },
            ],
          },
        },
        networks: [
          { name: "default", pod: {} },
          { name: "blue", multus: { networkName: "blue" } },
          { name: "green", multus: { networkName: "green" } },
          { name: "red", multus: { networkName: "red" } },
        ],
      },
      status: {
        nodeName: "node-z",
        interfaces: [
          { name: "blue", mac: "02:00:00:00:00:11" },
          { mac: "02:00:00:00:00:99" },
          { name: "red", mac: "02:00:00:00:00:13", podInterfaceName: "red0" },
        ],
        volumeStatus: [
          { name: "data", target: "vda" },
          { name: "root", target: "vdb" },
        ],
      },
    },
  });
  await tenants.cluster.api.create("/api/v1/nodes", {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node-z", labels: { "topology.kubernetes.io/zone": "east" } },
  });
  // A zone is not waited for: one that comes late is told a minute later.
  await tenants.until(
    async () => (await source.viewOf(guest.identity)).availabilityZone !== null,
    "the node's zone",
    120_000,
  );
  const view = await source.viewOf(guest.identity);
  const link = (linkId: string, mac: string | null, name: string, network: string | null) => ({
    linkId,
    nad: linkId === "default" ? null : linkId,
    mac,
    interface: name,
    network,
    primary: linkId === "default",
  });
  expect(view.links).toEqual([
    link("default", null, "eth0", null),
    link("blue", "02:00:00:00:00:11", blue, "blue-network"),
    link("green", "02:00:00:00:00:02", "net2", "green-network"),
    link("red", "02:00:00:00:00:13", "red0", null),
  ]);
  expect(green).not.toBe("net2");
  expect(view).toMatchObject({
    firmwareUuid: "5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11",
    hostname: `web-0.shop.${namespace}.svc.cluster.local`,
    availabilityZone: "east",
    rootDevice: "/dev/vdb",
  });
});

test("of passwords posted at the same time on two nodes one is kept, and both nodes return it", async () => {
  const namespace = await tenants.namespace();
  const [web, db] = [await tenants.vm(namespace, "web"), await tenants.vm(namespace, "db")];
  const other = await tenants.source();
  const sources = [source, other];
  const posts = [0, 1, 2, 3, 4, 5].map((n) => Buffer.from(`password ${n}`));
  const outcomes = await Promise.all(
    posts.map((post, n) => (sources[n % 2] as KubeTenantSource).keepPassword(web.identity, post)),
  );
  expect([...outcomes].sort()).toEqual(["kept", "taken", "taken", "taken", "taken", "taken"]);
  const winner = posts[outcomes.indexOf("kept")];
  for (const one of sources)
    await tenants.until(
      async () => (await one.viewOf(web.identity)).password?.stored?.equals(winner as Buffer) === true,
      "the password that was kept",
    );
  expect((await source.viewOf(db.identity)).password).toEqual({ stored: null });
  expect(await source.keepPassword(db.identity, BYTES)).toBe("kept");
  expect((await source.viewOf(db.identity)).password?.stored).toEqual(BYTES);
  const { binaryData } = await tenants.cluster.api.get(pathOf(namespace, "configmaps", PASSWORDS));
  expect(binaryData[db.vm.metadata.uid]).toBe(BYTES.toString("base64"));
});

test("a password is refused in a namespace without the ConfigMap", async () => {
  const namespace = await tenants.namespace();
  await tenants.cluster.api.delete(pathOf(namespace, "configmaps", PASSWORDS));
  const guest = await tenants.vm(namespace, "web");
  expect((await source.viewOf(guest.identity)).password).toBeNull();
  expect(await source.keepPassword(guest.identity, BYTES)).toBe("refused");
  expect(await tenants.event(guest, "MetadataPasswordRefused")).toContain("404");
});

test("a container without a VM gets at most its tenant", async () => {
  const namespace = await tenants.namespace();
  const { uid } = (await tenants.cluster.api.get(`/api/v1/namespaces/${namespace}`)).metadata;
  const pod = { namespace, name: "p", uid: "p-1", node: "node-a", containerID: "c", since: "" };
  const identity = { state: "running", vm: null, pods: [pod], interfaces: [] } as const;
  expect(await source.viewOf(identity)).toMatchObject({ projectId: uid, userData: null, links: [] });
  const bare = { ...identity, pods: [{ ...pod, namespace: null, name: null, uid: null }] };
  expect(await source.viewOf(bare)).toMatchObject({ projectId: null, password: null });
});

test("a namespace that cannot be read gets a tenant name that no other tenant can have", async () => {
  const namespace = await tenants.namespace();
  const guest = await tenants.vm(namespace, "web", { annotations: { hostname: "web" } });
  const proxy = await ApiProxy.start(tenants.cluster);
  proxy.rule({
    when: ({ path }) => /^\/api\/v1\/namespaces(\?|$)/.test(path),
    act: { status: 403, body: {} },
  });
  const ours = await tenants.source({}, proxy.url);
  try {
    // Its bare name may be another namespace's tenant-id.
    const projectId = `namespace:${namespace}`;
    expect(await ours.viewOf(guest.identity)).toMatchObject({ projectId, hostname: "web" });
    const pod = { namespace, name: "p", uid: "p-1", node: "node-a", containerID: "c", since: "" };
    expect((await ours.viewOf({ ...guest.identity, vm: null, pods: [pod] })).projectId).toBe(projectId);
  } finally {
    await ours.stop();
    await proxy.stop();
  }
});

test("a VM without known UIDs gets no content", async () => {
  const namespace = await tenants.namespace();
  const guest = await tenants.vm(namespace, "web", { annotations: { hostname: "another" } });
  const vm = { ...guest.identity.vm, uid: "", vmiUid: null } as TenantVm["identity"]["vm"];
  expect(await source.viewOf({ ...guest.identity, vm })).toMatchObject({ hostname: null, links: [] });
  expect(await source.keepPassword({ ...guest.identity, vm }, BYTES)).toBe("refused");
});

test("the source that the server creates works with the rights of the shipped account", async () => {
  const namespace = await tenants.namespace();
  const warnings: string[] = [];
  const made = createKubeTenantSource({
    kubeconfig: tenants.cluster.kubeconfig("holdfast-metadata"),
    node: "node-a",
    log: { info: () => {}, warn: (message: unknown) => warnings.push(String(message)) },
    clock: tenants.clock,
    secret: () => null,
    connect: connectOverHttp,
  });
  tenants.cluster.time.waitedFor(made, "start", "stop", "viewOf", "backendOf", "keepPassword");
  await made.start();
  try {
    await tenants.secret(namespace, "boot", { userdata: BYTES });
    const guest = await tenants.vm(namespace, "web", { annotations: { "user-data": "secret/boot" } });
    expect((await made.viewOf(guest.identity)).userData).toEqual(BYTES);
    expect(await made.backendOf("blue")).toBeNull();
    expect(await made.keepPassword(guest.identity, BYTES)).toBe("kept");
  } finally {
    await made.stop();
  }
  expect(warnings).toEqual([]);
});

test("while the API server is unreachable known content is served, and unknown content is an error", async () => {
  const namespace = await tenants.namespace();
  await tenants.secret(namespace, "boot", { userdata: "known" });
  const annotations = { "user-data": "secret/boot" };
  const guest = await tenants.vm(namespace, "web", { annotations });
  // The API server takes a moment to grant what a new binding says.
  await tenants.until(
    async () => (await source.viewOf(guest.identity).catch(() => null)) !== null,
    "the right to read",
  );
  const before = await source.viewOf(guest.identity);
  const fresh = await tenants.source({ syncMsMax: 2_000 });
  const unknown = await tenants.namespace();
  const stranger = await tenants.vm(unknown, "db", { annotations });
  // On a busy machine one question may not be answered in time: it asks until it knows.
  await tenants.until(async () => (await fresh.viewOf(guest.identity).catch(() => null)) !== null, "what it knows");
  const closed = await tenants.namespace({ tenant: false });
  const shut = await tenants.vm(closed, "web", { annotations });
  await source.viewOf(shut.identity);
  // The watches have told of it.
  await tenants.advance(100);
  await tenants.cluster.stopApiServer();
  try {
    expect(await source.viewOf(guest.identity)).toEqual(before);
    // Where a right is missing, not every request waits for whether it has come.
    let waitedCount = 0;
    for (let n = 0; n < 28; n++) {
      const startMs = tenants.clock.monotonicMs();
      expect((await source.viewOf(shut.identity)).userData).toBeNull();
      if (tenants.clock.monotonicMs() - startMs >= ASK_AGAIN_MS * 0.9) waitedCount += 1;
    }
    expect(waitedCount).toBeLessThan(14);
    await expect(fresh.viewOf(stranger.identity)).rejects.toThrow(ApiAway);
    await expect(source.keepPassword(guest.identity, BYTES)).rejects.toThrow(ApiAway);
    // Another VM by the same name, which no watch can have told of: not the old one's content.
    const vm = { ...guest.identity.vm, uid: "new", vmiUid: "new" } as TenantVm["identity"]["vm"];
    await expect(source.viewOf({ ...guest.identity, vm })).rejects.toThrow(ApiAway);
  } finally {
    await tenants.cluster.startApiServer();
  }
  await tenants.until(async () => {
    const view = await fresh.viewOf(stranger.identity).catch(() => null);
    return view !== null && view.projectId !== null;
  }, "the API to be asked again");
});

test("without KubeVirt's definitions there is no content, and no waiting", async () => {
  const namespace = await tenants.namespace();
  const guest = await tenants.vm(namespace, "web", { annotations: { hostname: "x" } });
  for (const plural of ["virtualmachines", "virtualmachineinstances"]) {
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.kubevirt.io`;
    await tenants.cluster.api.delete(path);
    await tenants.until(async () => (await tenants.cluster.api.find(path)) === null, "the definition to go");
  }
  await tenants.until(
    async () => (await tenants.cluster.api.call("GET", `/apis/kubevirt.io/v1/virtualmachines`)).status === 404,
    "the resource to go",
  );
  const fresh = await tenants.source();
  const view = await fresh.viewOf(guest.identity);
  expect(view).toMatchObject({ hostname: null, firmwareUuid: null, links: [], userData: null });
  expect(view.projectId).not.toBeNull();
});

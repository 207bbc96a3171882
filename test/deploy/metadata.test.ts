import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { TestCluster } from "../harness/cluster.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { readManifests } from "../harness/kube-manifests.ts";
import { isAllowed, MAY, MAY_NOT } from "./rights.ts";

const DEPLOY = join(import.meta.dirname, "../../deploy");
const ACCOUNT = "holdfast-metadata";
const PASSWORDS = "/api/v1/namespaces/shop/configmaps/holdfast-guest-passwords";
/** Of the sockets between daemon, server and listeners. */
const GROUP = 65_532;

let cluster: TestCluster;
beforeAll(async () => {
  // As in every cluster that runs a CNI plugin.
  cluster = await TestCluster.start({ controllers: false, apiServerArgs: ["--allow-privileged=true"] });
  await cluster.api.create("/api/v1/namespaces", { metadata: { name: "shop" } });
  await cluster.api.create("/api/v1/namespaces", { metadata: { name: "closed" } });
});
afterAll(() => cluster?.stop());

const read = (file: string) => readManifests(join(DEPLOY, file));
const podOf = (file: string): KubeObject => read(file)[0].spec.template.spec;
const container = (pod: KubeObject, name: string): KubeObject =>
  pod.containers.find((one: KubeObject) => one.name === name);

describe("the account", () => {
  test.each(MAY[ACCOUNT])("may $verb $resource$subresource", async (right) => {
    expect(await isAllowed(cluster, ACCOUNT, right)).toBe(true);
  });

  test.each(MAY_NOT[ACCOUNT])("may not $verb $resource$subresource $namespace", async (right) => {
    expect(await isAllowed(cluster, ACCOUNT, right)).toBe(false);
  });

  test("reads the Secrets that the tenant's manifest names, cannot list any, and writes one ConfigMap there", async () => {
    await cluster.apply(
      read("metadata/tenant.yaml").map((one) => ({
        ...one,
        metadata: { ...one.metadata, namespace: "shop" },
      })),
    );
    const api = cluster.apiAs(ACCOUNT);
    const status = async (method: string, path: string, body?: object) =>
      (await api.call(method, path, body, body && { "content-type": "application/merge-patch+json" })).status;
    const named = "holdfast-user-data";
    for (const [kind, name, answer] of [
      ["secrets", named, 404],
      ["secrets", "another", 403],
      ["configmaps", "any", 404],
    ] as const) {
      await expect.poll(() => status("GET", `/api/v1/namespaces/shop/${kind}/${name}`)).toBe(answer);
      expect(await status("GET", `/api/v1/namespaces/closed/${kind}/${name}`)).toBe(403);
      for (const where of ["", "/namespaces/shop", "/namespaces/closed"]) {
        expect(await status("GET", `/api/v1${where}/${kind}`)).toBe(403);
        expect(await status("GET", `/api/v1${where}/${kind}?fieldSelector=metadata.name%3D${named}`)).toBe(403);
        expect(await status("GET", `/api/v1${where}/${kind}?watch=true`)).toBe(403);
      }
    }
    expect(await status("PATCH", PASSWORDS, { binaryData: { a: "AA==" } })).toBe(200);
    expect(await status("DELETE", PASSWORDS)).toBe(403);
    expect(await status("PATCH", "/api/v1/namespaces/shop/configmaps/other", {})).toBe(403);
    expect(await status("PATCH", "/api/v1/namespaces/shop/secrets/any", {})).toBe(403);
    api.close();
  });

  test("has no wildcard among its rules", () => {
    const roles = [...read("rbac.yaml"), ...read("metadata/tenant.yaml")].filter(
      ({ kind, metadata }) => /Role$/.test(kind) && metadata.name === ACCOUNT,
    );
    expect(roles).toHaveLength(2);
    expect(JSON.stringify(roles)).not.toContain('"*"');
  });
});

test("a user with the role holdfast-viewer can read VMs and VMIs for `holdfast who`, and not change them", async () => {
  const rbac = "rbac.authorization.k8s.io";
  await cluster.api.create(`/apis/${rbac}/v1/clusterrolebindings`, {
    metadata: { name: "ann-looks" },
    roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "holdfast-viewer" },
    subjects: [{ apiGroup: rbac, kind: "User", name: "ann" }],
  });
  const may = async (verb: string, resource: string) => {
    const review = await cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec: { user: "ann", resourceAttributes: { group: "kubevirt.io", verb, resource, namespace: "shop" } },
    });
    return review.status.allowed;
  };
  for (const resource of ["virtualmachines", "virtualmachineinstances"]) {
    await expect.poll(() => may("get", resource)).toBe(true);
    for (const verb of ["create", "update", "patch", "delete"]) expect(await may(verb, resource)).toBe(false);
  }
});

test("the API server takes the DaemonSet as it is, and the component's patch of the daemon's", async () => {
  await cluster.apply(read("metadata/daemonset.yaml"));
  const sets = "/apis/apps/v1/namespaces/holdfast-system/daemonsets";
  const [wanted] = read("metadata/daemonset.yaml");
  // What a server does not know it drops without a word.
  expect((await cluster.api.get(`${sets}/holdfast-metadata`)).spec).toMatchObject(wanted.spec);
  await cluster.apply(read("daemonset.yaml"));
  const [component] = read("metadata/kustomization.yaml");
  for (const { target, patch } of component.patches)
    await cluster.api.patch(`${sets}/${target.name}`, parse(patch), "json");
  const { spec } = (await cluster.api.get(`${sets}/holdfast-node`)).spec.template;
  expect(spec.securityContext.supplementalGroups).toEqual([GROUP]);
  expect(container(spec, "daemon").env).toContainEqual({
    name: "HOLDFAST_IDENTITY_GROUP",
    value: String(GROUP),
  });
});

test("the server has no privilege, and only it has a token; both run from the image of this version", () => {
  const pod = podOf("metadata/daemonset.yaml");
  const [listeners, server] = [container(pod, "listeners"), container(pod, "server")];
  expect(pod.serviceAccountName).toBe(ACCOUNT);
  expect(pod.automountServiceAccountToken).toBe(false);
  const { image } = container(podOf("daemonset.yaml"), "daemon");
  for (const one of [listeners, server]) expect(one.image).toBe(image);
  expect(server.securityContext).toMatchObject({
    runAsUser: GROUP,
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"] },
  });
  const mounted = (one: KubeObject) => one.volumeMounts.map(({ name }: KubeObject) => name);
  expect(mounted(server)).toContain("token");
  expect(mounted(listeners)).not.toContain("token");
});

test("listeners and server meet at one socket, of a group that both have", () => {
  const pod = podOf("metadata/daemonset.yaml");
  const flag = (name: string, key: string) =>
    container(pod, name)
      .args.find((arg: string) => arg.startsWith(`--${key}=`))
      ?.split("=")[1];
  expect(flag("server", "metadata-socket")).toBe(flag("listeners", "metadata-socket"));
  expect(flag("server", "metadata-socket-group")).toBe(String(GROUP));
  expect(pod.securityContext.supplementalGroups).toContain(GROUP);
  const dockerfile = readFileSync(join(DEPLOY, "Dockerfile"), "utf8");
  expect(dockerfile).toContain(`"--gid", "${GROUP}", "${flag("listeners", "haproxy-group")}"`);
  expect(dockerfile).toContain(
    `"--gid", "${GROUP}", "--no-create-home", "--shell", "/usr/sbin/nologin", "${flag("listeners", "haproxy-user")}"`,
  );
  for (const tool of ["ethtool", "haproxy", "iproute2", "nftables", "openvswitch-common"])
    expect(dockerfile).toContain(` ${tool} `);
});

test("namespaces that the listeners mount are the node's, and no container but theirs has its rights", () => {
  const pod = podOf("metadata/daemonset.yaml");
  const [listeners, server] = [container(pod, "listeners"), container(pod, "server")];
  expect(pod.hostNetwork).toBe(true);
  expect(listeners.securityContext).toMatchObject({ privileged: true, runAsUser: 0 });
  expect(server.securityContext.privileged).toBeUndefined();
  const at = (one: KubeObject, path: string) =>
    one.volumeMounts.find(({ mountPath }: KubeObject) => mountPath === path);
  const volume = (name: string) => pod.volumes.find((one: KubeObject) => one.name === name);
  const namespaces = at(listeners, "/run/netns");
  expect(namespaces.mountPropagation).toBe("Bidirectional");
  expect(volume(namespaces.name).hostPath.path).toBe("/var/run/netns");
  expect(at(server, "/run/netns")).toBeUndefined();
  // Switches' sockets, at the paths of the node; whoever writes there can redirect all traffic.
  for (const path of ["/run/openvswitch", "/run/ovn", "/run/ovn-ic"]) {
    const hostPath = { path: `/var${path}`, type: "DirectoryOrCreate" };
    expect(volume(at(listeners, path).name).hostPath).toEqual(hostPath);
    expect(at(server, path)).toBeUndefined();
  }
  // The daemon's own directory: its socket is for the listeners, the one for identities for the server.
  const daemon = podOf("daemonset.yaml");
  const directory = (of: KubeObject, name: string) => of.volumes.find((one: KubeObject) => one.name === name);
  const own = at(container(daemon, "daemon"), "/run/holdfast");
  for (const one of [listeners, server])
    expect(volume(at(one, "/run/holdfast").name).hostPath).toEqual(directory(daemon, own.name).hostPath);
  expect(at(server, "/run/holdfast").readOnly).toBe(true);
});

test.each([
  ["server", "holdfast-metadata.service"],
  ["listeners", "holdfast-metadata-net.service"],
])("NODE_OPTIONS are the same with systemd and in Kubernetes: %s", (name, file) => {
  const all = container(podOf("metadata/daemonset.yaml"), name).env.filter(
    (one: KubeObject) => one.name === "NODE_OPTIONS",
  );
  expect(all).toHaveLength(1);
  const unit = readFileSync(join(DEPLOY, "systemd", file), "utf8");
  const [, options] = /^Environment="?NODE_OPTIONS=([^"\n]*)"?$/m.exec(unit) ?? [];
  expect(options).toBe(all[0].value);
});

import { execFileSync } from "node:child_process";
import { accessSync, constants, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { loadControllerSettings } from "../../controller/settings.ts";
import { TestCluster } from "../harness/cluster.ts";
import { newDirectory, run, SHIM } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { collectionOf, readManifests } from "../harness/kube-manifests.ts";
import { LEDGER_COLUMNS, NETWORK, NETWORK_COLUMNS, SAMPLE, WRONG } from "./ledger.ts";
import { isAllowed, MAY, MAY_NOT, OWN_MODE_MAY, OWN_MODE_MAY_NOT, TEMPLATES_MAY, TEMPLATES_MAY_NOT } from "./rights.ts";

const ROOT = join(import.meta.dirname, "../..");
const DEPLOY = join(ROOT, "deploy");
const listed = (directory: string): string[] =>
  readManifests(join(DEPLOY, directory, "kustomization.yaml"))[0].resources.map((one: string) => join(directory, one));
const FILES: string[] = [...listed("crds"), ...listed("")];
/** The optional part. */
const METADATA: KubeObject = readManifests(join(DEPLOY, "metadata/kustomization.yaml"))[0];
/** Own mode of machine data, and its definitions, which CAPM3 has too. */
const MACHINE_DEFINITIONS: string[] = listed("machines/crds");
const MACHINE_RIGHTS: string[] = listed("machines");
/** For servers that have ValidatingAdmissionPolicies: 1.30 and later. */
const ADMISSION: KubeObject = readManifests(join(DEPLOY, "admission/kustomization.yaml"))[0];
/** References of OVN-Kubernetes' networks to metadata Services. */
const NETWORK_RULES: string[] = listed("udn");
const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const NETWORKS = "/apis/ipam.holdfast.dev/v1alpha1/ipnetworks";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await TestCluster.start({ controllers: false });
});
afterAll(() => cluster?.stop());

/** Its version is not known to this server: test/deploy/flowcontrol.test.ts has another one of it. */
const FLOW_CONTROL = "flowcontrol.yaml";
const objects = () =>
  [...FILES.filter((file) => file !== FLOW_CONTROL), ...MACHINE_DEFINITIONS].flatMap((file) =>
    readManifests(join(DEPLOY, file)),
  );
const find = (kind: string): KubeObject => objects().find((object) => object.kind === kind);
test("the kustomization lists every manifest", async () => {
  const { stdout } = await run("find", [DEPLOY, "-name", "*.yaml", "-printf", "%P\n"]);
  // Of the Helm chart only the values are a file here: its templates are made of these manifests.
  const there = stdout
    .trim()
    .split("\n")
    .filter((path) => path !== "helm/values.yaml");
  const optional = [...METADATA.resources, "kustomization.yaml", "tenant.yaml"].map((one) => `metadata/${one}`);
  const admission = [...ADMISSION.resources, "kustomization.yaml"].map((one) => `admission/${one}`);
  const machines = [
    ...MACHINE_DEFINITIONS,
    ...MACHINE_RIGHTS,
    "machines/kustomization.yaml",
    "machines/crds/kustomization.yaml",
  ];
  const observability = ["kustomization", "podmonitor", "rules"].map((name) => `observability/${name}.yaml`);
  const distributions = ["openshift/rbac", "openshift/kustomization", "gke/quota", "gke/kustomization"].map(
    (name) => `${name}.yaml`,
  );
  const networks = [
    ...NETWORK_RULES,
    "udn/kustomization.yaml",
    "udn/userdefinednetworks-patch.yaml",
    "udn/clusteruserdefinednetworks-patch.yaml",
  ];
  expect(
    [
      ...FILES,
      "kustomization.yaml",
      "crds/kustomization.yaml",
      ...optional,
      ...admission,
      ...machines,
      ...networks,
      ...observability,
      ...distributions,
    ].sort(),
  ).toEqual(there.sort());
});

test("the API server takes every object, and takes it again", async () => {
  await cluster.apply(objects());
  await cluster.apply(objects());
  for (const object of objects()) {
    const stored = await cluster.api.get(`${collectionOf(object)}/${object.metadata.name}`);
    // What a server does not know it drops without a word.
    if (object.spec !== undefined) expect(stored.spec).toMatchObject(object.spec);
  }
});

test("the definitions are structural: no condition says otherwise", async () => {
  for (const { metadata } of objects().filter(({ kind }) => kind === "CustomResourceDefinition")) {
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${metadata.name}`;
    const { status } = await cluster.api.get(path);
    const said = status.conditions.map(({ type, status: is }: KubeObject) => `${type}=${is}`);
    expect(said.sort()).toEqual(["Established=True", "NamesAccepted=True"]);
  }
});

describe("objects", () => {
  test("keep every field that Holdfast writes, status included", async () => {
    const stored = await cluster.api.create(ALLOCATIONS, SAMPLE);
    expect(stored).toMatchObject(SAMPLE);
    expect(await cluster.api.create(NETWORKS, NETWORK)).toMatchObject(NETWORK);
  });

  test("are listed by kubectl with their columns", async () => {
    expect(await table(ALLOCATIONS)).toEqual(LEDGER_COLUMNS);
    const networks = await table(NETWORKS);
    expect(networks).toMatchObject(NETWORK_COLUMNS);
    expect(Object.keys(networks)).toEqual(["Name", ...Object.keys(NETWORK_COLUMNS), "Age"]);
  });

  test.each(WRONG)("refused: $what", async ({ change }) => {
    const { metadata: _, ...rest } = structuredClone(SAMPLE);
    const answer = await cluster.api.call("POST", ALLOCATIONS, change({ ...rest, metadata: { name: "wrong" } }));
    expect(answer.status).toBe(422);
  });

  /** The first row of a list as kubectl shows it, by column. */
  async function table(path: string): Promise<Record<string, unknown>> {
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const { body } = await cluster.api.call("GET", path, undefined, { accept });
    return Object.fromEntries(
      body.columnDefinitions.map(({ name }: KubeObject, at: number) => [name, body.rows[0].cells[at]]),
    );
  }
});

describe.each(["holdfast-node", "holdfast-controller"] as const)("the account %s", (user) => {
  test.each(MAY[user])("may $verb $resource$subresource", async (right) => {
    expect(await isAllowed(cluster, user, right)).toBe(true);
  });

  test.each(MAY_NOT[user])("may not $verb $resource$subresource $namespace", async (right) => {
    expect(await isAllowed(cluster, user, right)).toBe(false);
  });

  test("is refused secrets when it really asks", async () => {
    const api = cluster.apiAs(user);
    expect((await api.call("GET", "/api/v1/secrets")).status).toBe(403);
    expect((await api.call("GET", "/api/v1/pods")).status).toBe(200);
    const gone = await api.call("DELETE", `${ALLOCATIONS}/none`);
    expect(gone.status).toBe(user === "holdfast-node" ? 403 : 404);
    api.close();
  });

  test("has no wildcard among its rules", () => {
    const roles = objects().filter(({ kind, metadata }) => /Role$/.test(kind) && metadata.name === user);
    expect(roles.length).toBeGreaterThan(0);
    expect(JSON.stringify(roles)).not.toContain('"*"');
  });
});

describe("own mode of machine data", () => {
  beforeAll(() => cluster.apply(MACHINE_RIGHTS.flatMap((file) => readManifests(join(DEPLOY, file)))));
  afterAll(async () => {
    for (const file of MACHINE_RIGHTS)
      for (const one of readManifests(join(DEPLOY, file)))
        await cluster.api.delete(`${collectionOf(one)}/${one.metadata.name}`);
  });

  test("is switched on by the flag that the component adds", () => {
    const [{ patches }] = readManifests(join(DEPLOY, "machines/kustomization.yaml"));
    const [{ op, path, value }] = parse(patches[0].patch) as KubeObject[];
    expect({ op, path }).toEqual({ op: "add", path: "/spec/template/spec/containers/0/args/-" });
    const [flag, given] = value.slice(2).split("=");
    expect(flag).toBe("machine-data");
    expect(loadControllerSettings({ machineData: given }, {}).machineData).toBe("own");
    expect(loadControllerSettings({}, {}).machineData).toBe("off");
  });

  test.each(OWN_MODE_MAY)("lets the controller $verb $resource$subresource", async (right) => {
    expect(await isAllowed(cluster, "holdfast-controller", right)).toBe(true);
  });

  test.each(OWN_MODE_MAY_NOT)("does not let it $verb $resource$subresource", async (right) => {
    expect(await isAllowed(cluster, "holdfast-controller", right)).toBe(false);
  });

  test.each(TEMPLATES_MAY)("lets the metadata service $verb $resource", async (right) => {
    expect(await isAllowed(cluster, "holdfast-metadata", right)).toBe(true);
  });

  test.each(TEMPLATES_MAY_NOT)("does not let that $verb $resource", async (right) => {
    expect(await isAllowed(cluster, "holdfast-metadata", right)).toBe(false);
  });
});

test("both run as the accounts that have the rights, from an image of this version", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  for (const [kind, account] of [
    ["DaemonSet", "holdfast-node"],
    ["Deployment", "holdfast-controller"],
  ] as const) {
    const pod = find(kind).spec.template.spec;
    expect(pod.serviceAccountName).toBe(account);
    for (const { image } of [...pod.containers, ...(pod.initContainers ?? [])])
      expect(image).toBe(`holdfast:${version}`);
  }
});

test("one node has room for everything: no two pods want the same port of it", () => {
  const workloads = [...FILES, ...METADATA.resources.map((one: string) => `metadata/${one}`)]
    .flatMap((file) => readManifests(join(DEPLOY, file)))
    .filter(({ spec }) => spec?.template !== undefined);
  const ports = workloads.flatMap(({ spec }) => {
    const { containers, hostNetwork } = spec.template.spec;
    const own: KubeObject[] = containers.flatMap(({ ports = [] }: KubeObject) => ports);
    const wanted = own.filter(({ hostPort }) => hostNetwork || hostPort).map((one) => one.containerPort);
    return Array.from({ length: spec.replicas ?? 1 }, () => wanted).flat();
  });
  expect(ports.length).toBeGreaterThan(3);
  expect(new Set(ports).size).toBe(ports.length);
});

test("the daemon's pod sees every directory that the settings' defaults name", () => {
  const { containers, volumes } = find("DaemonSet").spec.template.spec;
  const hostOf = (name: string) => volumes.find((volume: KubeObject) => volume.name === name).hostPath.path;
  const mounts: KubeObject[] = containers[0].volumeMounts;
  // The pod has a /proc of its own, over which nothing can be mounted: the boot ID that the kubelet reports is beside
  // it.
  const bootId = mounts.find(({ name }) => name === "boot-id");
  expect(hostOf("boot-id")).toBe("/proc/sys/kernel/random/boot_id");
  expect(containers[0].env).toContainEqual({ name: "HOLDFAST_BOOT_ID_FILE", value: bootId?.mountPath });
  // The plugin binary runs on the host: its paths and the daemon's are the same.
  const same = mounts.filter((mount) => mount !== bootId && mount.name !== "settings");
  // The settings are no directory of the host's: its /etc may be read-only.
  expect(mounts).toContainEqual({ name: "settings", mountPath: "/etc/holdfast", readOnly: true });
  expect(volumes).toContainEqual({ name: "settings", configMap: { name: "holdfast-node", optional: true } });
  const paths = same.map(({ name, mountPath }) => [mountPath, hostOf(name)]).sort();
  expect(paths).toEqual([
    ["/run/holdfast", "/var/run/holdfast"],
    ["/run/netns", "/var/run/netns"],
    ["/var/lib/holdfast", "/var/lib/holdfast"],
  ]);
});

test("the init container's script installs the binary, which needs no settings", async () => {
  const [install] = find("DaemonSet").spec.template.spec.initContainers;
  const host = join(cluster.directory, "host");
  await run("mkdir", ["-p", join(host, "bin")]);
  const script = install.command[2]
    .replaceAll("/host/", `${host}/`)
    .replace("/usr/local/lib/holdfast/bin/holdfast-ipam", SHIM);
  expect(await run("/bin/sh", ["-euc", script])).toMatchObject({ code: 0, stderr: "" });
  const installed = join(host, "bin/holdfast-ipam");
  const answer = await run(installed, [], { CNI_COMMAND: "VERSION" }, "{}");
  expect(answer.code).toBe(0);
  expect((await run("find", [host, "-name", "*.new"])).stdout).toBe("");
});

test("the Dockerfile builds what make install installs, and starts it", () => {
  const text = readFileSync(join(DEPLOY, "Dockerfile"), "utf8");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  for (const line of lines) expect(line).toMatch(/^(ARG|ENV|FROM|LABEL|WORKDIR|COPY|RUN|USER|ENTRYPOINT) \S/);
  const stages = lines.filter((line) => line.startsWith("FROM"));
  // Arguments, so that a build can name them by their digests.
  expect(lines.slice(0, 2)).toEqual(["ARG BUILD_IMAGE=debian:12", "ARG BASE_IMAGE=debian:12-slim"]);
  expect(stages.join("\n")).toMatch(/^FROM \$\{BUILD_IMAGE\} AS build\nFROM \$\{BASE_IMAGE\}$/);
  expect(text).not.toMatch(/^ADD |:latest|^USER (0|root)/m);
  // What the build stage runs, here: the image has what it puts into /usr/local.
  const [install] = /^RUN make install (.+)$/m.exec(text)?.slice(1) ?? [];
  const directory = newDirectory();
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const image = join(directory, "image");
  const options = (install as string).split(" ").map((option) => option.replace("/image", image));
  execFileSync("make", ["-C", ROOT, "install", ...options], { stdio: "pipe" });
  expect(readdirSync(image)).toEqual(["usr"]);
  const [, entry] = /^ENTRYPOINT \["(.+)"\]$/m.exec(text) ?? [];
  const [interpreter] = readFileSync(join(image, entry as string), "utf8").split("\n", 1);
  for (const path of [interpreter?.slice("#!".length) as string, "/usr/local/lib/holdfast/bin/holdfast-ipam"])
    accessSync(join(image, path), constants.X_OK);
});

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { TestCluster } from "../harness/cluster.ts";
import { codeBlocks, walkthrough } from "../harness/documents.ts";
import { readManifests } from "../harness/kube-manifests.ts";
import { ClusterApi } from "../harness/machines/cluster-api.ts";
import { Capm3 } from "../harness/machines/consumers.ts";
import { CAPM3_RELEASES, templateDefinition } from "../harness/machines/definitions.ts";
import { PageReader, withReleaseMade } from "../harness/page-reader.ts";
import { until } from "../harness/wait.ts";

/**
 * The parts of docs/machines.md, typed as they are written, on a real API server; other projects' controllers are
 * played.
 */

const PAGE = "docs/machines.md";
const PROJECT = join(import.meta.dirname, "../..");
const NAMESPACE = "metal";
const POOL = "machines";
const MACHINES = `/apis/cluster.x-k8s.io/v1beta2/namespaces/${NAMESPACE}/machines`;

let cluster: TestCluster;
let reader: PageReader;
beforeEach(async () => {
  cluster = await TestCluster.start();
  reader = new PageReader(cluster);
}, 300_000);
afterEach(async () => {
  await reader?.stop();
  await cluster?.stop();
});

/** What `clusterctl init --ipam holdfast` applies: the components that its configuration names, with its variables. */
function initialise(): Promise<string> {
  const config = parse(readFileSync(join(reader.directory, ".config/cluster-api/clusterctl.yaml"), "utf8"));
  const { url } = config.providers.find((one: { name: string; type: string }) => {
    return one.name === "holdfast" && one.type === "IPAMProvider";
  });
  if (!/^\/.*\/ipam-holdfast\/v\d+\.\d+\.\d+(-[\w.]+)?\/ipam-components\.yaml$/.test(url))
    throw new Error(`clusterctl finds nothing at ${url}`);
  const components = readFileSync(url, "utf8");
  const installed = components.replace(
    /\$\{(\w+):=([^}]*)\}/g,
    (_, name: string, otherwise: string) => config[name] ?? otherwise,
  );
  const file = join(reader.directory, "installed.yaml");
  writeFileSync(file, installed);
  return reader.type(`kubectl apply -f ${file}`);
}

describe("Metal3 with CAPM3", () => {
  let capi: ClusterApi;
  beforeEach(async () => {
    capi = await ClusterApi.install(cluster, { kinds: ["metal3-data", "metal3-host", "metal3-pools"] });
  });
  afterEach(() => capi?.stop());

  test("every release of CAPM3 takes the page's template as it is written", async () => {
    const block = codeBlocks(PAGE, "A template").find((one) => one.includes("kind: Metal3DataTemplate"));
    const template = parse(block?.split("<<END\n")[1]?.split("END\n")[0] ?? "");
    const { name } = template.metadata;
    await cluster.api.create("/api/v1/namespaces", { metadata: { name: NAMESPACE } });
    for (const release of CAPM3_RELEASES) {
      const definition = templateDefinition(release);
      const crd = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${definition.metadata.name}`;
      await cluster.api.delete(crd);
      await until(async () => (await cluster.api.find(crd)) === null, "the former definition to go");
      await cluster.apply([definition]);
      for (const version of definition.spec.versions) {
        const apiVersion = `infrastructure.cluster.x-k8s.io/${version.name}`;
        const path = `/apis/${apiVersion}/namespaces/${NAMESPACE}/metal3datatemplates`;
        const sent = { ...template, apiVersion };
        const created = await cluster.api.call("POST", path, sent);
        expect(created.status, `${release} ${JSON.stringify(created.body)}`).toBe(201);
        // Nothing of it was pruned.
        expect(created.body, release).toMatchObject(sent);
        await cluster.api.delete(`${path}/${name}`);
        const { clusterName: _, ...rest } = template.spec;
        const without = await cluster.api.call("POST", path, { ...sent, spec: rest });
        const isRequired = release !== "v1.14" || version.name === "v1beta1";
        expect(without.status, `${release} without clusterName`).toBe(isRequired ? 422 : 201);
      }
    }
  });

  test("a provider is installed, and its pool gives machines addresses that they keep when they are replaced", async () => {
    await cluster.define([templateDefinition("v1.13")]);
    const capm3 = new Capm3(capi, NAMESPACE);
    /** A machine, and what CAPM3 makes for it. */
    const machine = async (name: string, index: number) => {
      const metadata = { name, namespace: NAMESPACE };
      await cluster.api.create(MACHINES, {
        apiVersion: "cluster.x-k8s.io/v1beta2",
        kind: "Machine",
        metadata,
      });
      await capm3.claim(`workers-${index}`, POOL, "prod");
    };
    const release = `${process.execPath} ${join(PROJECT, "tools/release.mjs")} --only manifests dist/release`;
    await reader.follow(walkthrough(PAGE, "Metal3 with CAPM3"), {
      commands: { "make release ONLY=manifests": release, "clusterctl init --ipam holdfast": "" },
      acts: [
        { after: /^clusterctl init/m, act: initialise },
        { after: /^clusterctl init/m, act: () => reader.startController() },
        { after: /create namespace metal/, act: () => capi.capiCluster("prod", {}, NAMESPACE) },
        { after: /kind: Metal3DataTemplate/, act: () => machine("workers-x7k2p", 0) },
        { after: /kind: Metal3DataTemplate/, act: () => machine("workers-9tq4c", 1) },
        { after: /delete machine workers-9tq4c/, act: () => capm3.release("workers-1", POOL) },
        { after: /get addresspool machines/, act: () => machine("workers-fmm8s", 1) },
      ],
    });
    // Nothing is stuck while Holdfast is away.
    await reader.stop();
    for (const index of [0, 1]) await capm3.release(`workers-${index}`, POOL);
    await reader.type(`kubectl delete namespace ${NAMESPACE} --timeout=60s`);
  });
});

test("Metal3 without CAPM3: a machine gets index, address and Secrets, and gives everything back", async () => {
  const [host] = readManifests(join(PROJECT, "test/harness/crds/machines/metal3-host.yaml"));
  await cluster.define([host]);
  const inspect = () =>
    cluster.api.patch(`/apis/metal3.io/v1alpha1/namespaces/${NAMESPACE}/baremetalhosts/rack1-u7/status`, {
      status: { hardware: { nics: [{ name: "eno1", mac: "52:54:00:00:07:01" }] } },
    });
  await reader.follow(walkthrough(PAGE, "Metal3 without CAPM3"), {
    commands: withReleaseMade("machines"),
    acts: [
      // The garbage collector would learn of the new kinds half a minute later.
      { after: /apply -f dist\/release/, act: () => cluster.define([]) },
      { after: /apply -f dist\/release/, act: () => reader.startController() },
      { after: /get metal3data workers-0/, act: inspect },
    ],
  });
});

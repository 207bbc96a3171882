import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { TestCluster } from "../harness/cluster.ts";
import { network, newDirectory, run, TestDaemon } from "../harness/daemon.ts";
import { codeBlocks, commandsInRow } from "../harness/documents.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { skippedFor } from "../harness/needs.ts";
import { FOR_OLD_SERVER } from "../harness/page-reader.ts";
import { RenderedChart, whyNoRenderer } from "./helm/rendered-chart.ts";
import { SAMPLE } from "./ledger.ts";

const ROOT = join(import.meta.dirname, "../..");
const ALLOCATIONS = "/apis/ipam.holdfast.dev/v1alpha1/ipallocations";
const WORKLOADS = ["daemonsets/holdfast-node", "deployments/holdfast-controller"];

/** `holdfast.yaml` of a source tree, in the directory that is returned. */
async function releaseOf(tree: string, name: string, directory: string): Promise<string> {
  const out = join(directory, name);
  const words = ["--only", "manifests", FOR_OLD_SERVER, "--image", `registry.example/holdfast:${name}`, out];
  const { code, stderr } = await run(process.execPath, [join(tree, "tools/release.mjs"), ...words]);
  if (code !== 0) throw new Error(stderr);
  return out;
}

/** The sources of the commit before this one; null: this tree has no history. */
function commitBefore(directory: string): string | null {
  try {
    execFileSync("git", ["rev-parse", "--verify", "HEAD~1"], { cwd: ROOT, stdio: "pipe" });
  } catch {
    return null;
  }
  const tree = join(directory, "tree");
  mkdirSync(tree);
  execFileSync("bash", ["-c", `git archive HEAD~1 | tar -x -C ${tree}`], { cwd: ROOT });
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
  return tree;
}

test("docs/upgrade.md: holdfast.yaml of this release over that of the commit before keeps every allocation", async (context) => {
  const directory = newDirectory();
  const tree = commitBefore(directory);
  if (tree === null) return context.skip("no commit before this one is here");
  const cluster = await TestCluster.start({ apiServerArgs: ["--allow-privileged"], controllers: false });
  try {
    const env = { KUBECONFIG: cluster.kubeconfig("admin"), HOME: directory };
    const upgrade = commandsInRow("docs/upgrade.md", "`holdfast.yaml`");
    const apply = async (name: string, from: string) => {
      const cwd = await releaseOf(from, name, directory);
      const { code, stdout, stderr } = await run("bash", ["-euc", `cd ${cwd}; ${upgrade}`], env);
      expect(code, `${stdout}${stderr}`).toBe(0);
    };
    const workloads = () =>
      Promise.all(WORKLOADS.map((path) => cluster.api.get(`/apis/apps/v1/namespaces/holdfast-system/${path}`)));
    await apply("before", tree);
    const before = await workloads();
    const held = await cluster.api.create(ALLOCATIONS, SAMPLE);
    await apply("after", ROOT);
    const after = await workloads();
    // The same objects: none was deleted, and made again.
    expect(after.map(({ metadata }) => metadata.uid)).toEqual(before.map(({ metadata }) => metadata.uid));
    for (const { spec } of after)
      expect(spec.template.spec.containers[0].image).toBe("registry.example/holdfast:after");
    const kept = await cluster.api.get(`${ALLOCATIONS}/${SAMPLE.metadata.name}`);
    expect([kept.spec, kept.status]).toEqual([held.spec, held.status]);
  } finally {
    await cluster.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}, 300_000);

/**
 * Helm's own, of which nothing is in this test: what a release had and its successor has not is deleted, unless it is
 * to be kept.
 */
function goneFrom(before: readonly KubeObject[], after: readonly KubeObject[]): KubeObject[] {
  const nameOf = ({ kind, metadata }: KubeObject) => `${kind} ${metadata.namespace ?? ""}/${metadata.name}`;
  const stays = new Set(after.map(nameOf));
  return before.filter(
    (one) => !stays.has(nameOf(one)) && one.metadata.annotations?.["helm.sh/resource-policy"] !== "keep",
  );
}

const SOURCES = { repository: "registry.example/holdfast" };
const VALUES = [
  { image: { ...SOURCES, tag: "before" }, metadata: { enabled: true } },
  {
    image: { ...SOURCES, tag: "after" },
    ...{ distribution: "k3s", machines: { enabled: true } },
    ...{
      node: { tolerations: [{ key: "a", operator: "Exists" }] },
      controller: { replicas: 2, nodeSelector: { a: "b" } },
    },
  },
] as const;

/** Helm 3 merges what it had, what it has and what is there, as kubectl does; Helm 4 lets the server do that. */
test.skipIf(skippedFor(whyNoRenderer) !== null).each([
  ["three-way merges", []],
  ["server-side apply", ["--server-side", "--force-conflicts", "--field-manager=helm"]],
] as const)(
  "docs/upgrade.md: the objects of the chart over those of the commit before, and back, with other values, by %s",
  async (_, how) => {
    const directory = newDirectory();
    const tree = commitBefore(directory) ?? ROOT;
    const charts = await Promise.all([tree, ROOT].map((one) => RenderedChart.make("holdfast:one", one)));
    const cluster = await TestCluster.start({ apiServerArgs: ["--allow-privileged"], controllers: false });
    try {
      const env = { KUBECONFIG: cluster.kubeconfig("admin"), HOME: directory };
      const releases = charts.map(
        (chart, at) => chart.render(VALUES[at], "holdfast-system", [], "v1.20.2").objects,
      ) as [KubeObject[], KubeObject[]];
      const kubectl = async (verb: string, objects: readonly KubeObject[], more: readonly string[] = []) => {
        const file = join(directory, "objects.yaml");
        writeFileSync(file, objects.map((one) => stringify(one)).join("---\n"));
        const { code, stdout, stderr } = await run("kubectl", [verb, "-f", file, ...more], env);
        expect(code, `${stdout}${stderr}`).toBe(0);
      };
      const workloads = async () =>
        (
          await Promise.all(
            WORKLOADS.map((path) => cluster.api.get(`/apis/apps/v1/namespaces/holdfast-system/${path}`)),
          )
        ).map(({ metadata, spec }) => ({ uid: metadata.uid, spec }));
      const [before, after] = releases;
      await kubectl("apply", before, how);
      const [first, held] = [await workloads(), await cluster.api.create(ALLOCATIONS, SAMPLE)];
      await kubectl("apply", after, how);
      await kubectl("delete", goneFrom(before, after));
      const upgraded = await workloads();
      expect(upgraded.map(({ uid }) => uid)).toEqual(first.map(({ uid }) => uid));
      for (const [at, path] of WORKLOADS.entries()) {
        const wanted = after.find((one) => path.endsWith(`/${one.metadata.name}`) && one.spec?.template);
        expect(upgraded[at]?.spec).toMatchObject(wanted?.spec);
      }
      await kubectl("apply", before, how);
      await kubectl("delete", goneFrom(after, before));
      expect(await workloads()).toEqual(first);
      const kept = await cluster.api.get(`${ALLOCATIONS}/${SAMPLE.metadata.name}`);
      expect([kept.spec, kept.status]).toEqual([held.spec, held.status]);
    } finally {
      await cluster.stop();
      for (const chart of charts) chart.remove();
      rmSync(directory, { recursive: true, force: true });
    }
  },
  300_000,
);

test("docs/upgrade.md: the way back moves everything of the journal away, also after a crash, and leaves the spool", async () => {
  const daemon = await TestDaemon.start();
  try {
    await daemon.cni("ADD", "web", { config: network("blue", { subnets: "10.8.0.0/24" }) });
    await daemon.end("SIGKILL");
    const [, move] = codeBlocks("docs/upgrade.md", "Back to the release before") as [string, string];
    const script = move.replaceAll("/var/lib/holdfast", daemon.state);
    expect(await run("bash", ["-euc", script])).toMatchObject({ code: 0 });
    expect(readdirSync(daemon.state).sort()).toEqual(["newer", "reserve", "spool"]);
    const moved = ["holdfast.answered", "holdfast.answered-copy", "holdfast.db", "holdfast.db-wal", "holdfast.pages"];
    expect(readdirSync(join(daemon.state, "newer")).sort()).toEqual(moved);
  } finally {
    await daemon.stop();
  }
});

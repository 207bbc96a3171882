import type { ClusterAdminApi, NodeAdminApi } from "../../../../admin/admin-api.ts";
import { AskingApi } from "../../../../admin/cluster/asking/asking-api.ts";
import { ClusterProblem } from "../../../../admin/cluster/asking/cluster-problem.ts";
import { ClusterAdmin } from "../../../../admin/cluster/cluster-admin.ts";
import { answerInProcess, type InProcessRequest } from "../../../../admin/in-process.ts";
import { RefusalError } from "../../../../ipam/refusals.ts";
import { ApiAway } from "../../../../kube/kube-api.ts";
import { StorageAway, StorageFault } from "../../../../store/allocations.ts";
import { Violation } from "../../engine/violation.ts";
import type { Machine, World } from "../../world.ts";

/** How long somebody waits for the API server with the command line, ms. */
const SILENCE_MS = 15_000;
/** How often somebody asks who is not answered. */
const ASKED_MAX = 5;

/** Of the command line against the cluster. */
const runs = new WeakMap<World, number>();

/** What somebody was told. */
export type Told =
  // biome-ignore lint/suspicious/noExplicitAny: the JSON of each route's answer
  | { readonly kind: "answered"; readonly body: any }
  | { readonly kind: "refused"; readonly code: string; readonly message: string }
  | { readonly kind: "away"; readonly message: string };

type Asked = Partial<Omit<InProcessRequest, "path">> & Pick<InProcessRequest, "path">;

/** `holdfast …` on a node. */
export function askNode(machine: Machine, asked: Asked): Promise<Told> {
  const { daemon } = machine;
  if (daemon === null) return Promise.resolve({ kind: "away", message: "no daemon runs" });
  return told(daemon.core.admin, asked);
}

/** `holdfast --kubeconfig …` from anywhere. */
export async function askCluster(world: World, asked: Asked): Promise<Told> {
  const link = `command line ${(runs.get(world) ?? 0) + 1}`;
  runs.set(world, (runs.get(world) ?? 0) + 1);
  const api = world.cluster.connect("operator", link)(null, world.clock);
  try {
    const asking = new AskingApi(api, { server: "the cluster", silenceMs: SILENCE_MS });
    return await told(new ClusterAdmin({ api: asking, silenceMs: SILENCE_MS }), asked);
  } finally {
    api.close();
    world.cluster.cut(link);
  }
}

/** Somebody who was not answered asks again. */
export async function answered(ask: () => Promise<Told>): Promise<Told> {
  let told = await ask();
  for (let i = 1; told.kind === "away" && i < ASKED_MAX; i += 1) told = await ask();
  return told;
}

/** Throws Violation for an answer that no operator should see. */
async function told(
  api: NodeAdminApi | ClusterAdminApi,
  { method = "GET", path, query = {}, body = null }: Asked,
): Promise<Told> {
  try {
    return { kind: "answered", body: await answerInProcess(api, { method, path, query, body }) };
  } catch (error) {
    if (error instanceof RefusalError) {
      const { code, message } = error.refusal;
      if (code !== "INTERNAL_ERROR") return { kind: "refused", code, message };
    }
    if (error instanceof ClusterProblem && error.kind === "refused")
      return { kind: "refused", code: "", message: error.message };
    if (isAway(error)) return { kind: "away", message: (error as Error).message };
    throw new Violation("command fails", `${method} ${path}: ${(error as Error).stack}`);
  }
}

function isAway(error: unknown): boolean {
  return [ApiAway, ClusterProblem, StorageAway, StorageFault].some((kind) => error instanceof kind);
}

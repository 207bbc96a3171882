import { join } from "node:path";
import type { KubeApi, KubeObject } from "./kube-api.ts";
import { readManifests } from "./kube-manifests.ts";

const FILE = join(import.meta.dirname, "../../deploy/flowcontrol.yaml");
const GROUP = "flowcontrol.apiserver.k8s.io";
/** The version of deploy/, and that of Kubernetes 1.20, which lends no places and has another word for shares. */
const SHIPPED = "v1";
const OLD = "v1beta1";

/** deploy/flowcontrol.yaml as this server takes it. */
export async function flowControl(api: KubeApi): Promise<KubeObject[]> {
  const objects = readManifests(FILE);
  const { versions } = await api.get(`/apis/${GROUP}`);
  if (versions.some(({ version }: KubeObject) => version === SHIPPED)) return objects;
  return objects.map(({ spec, ...rest }) => ({ ...rest, apiVersion: `${GROUP}/${OLD}`, spec: inOld(spec) }));
}

function inOld(spec: KubeObject): KubeObject {
  if (spec.limited === undefined) return spec;
  const { nominalConcurrencyShares, lendablePercent: _, ...limited } = spec.limited;
  return { ...spec, limited: { ...limited, assuredConcurrencyShares: nominalConcurrencyShares } };
}

/** What the API server has done since its start with the requests of one FlowSchema. */
export interface FlowCounts {
  readonly dispatched: number;
  readonly rejected: number;
  /** Of those that were dispatched, s in all. */
  readonly waitedSeconds: number;
  /** Now. */
  readonly waiting: number;
}

const NOTHING: FlowCounts = { dispatched: 0, rejected: 0, waitedSeconds: 0, waiting: 0 };
const METRICS: Readonly<Record<string, keyof FlowCounts>> = {
  dispatched_requests_total: "dispatched",
  rejected_requests_total: "rejected",
  request_wait_duration_seconds_sum: "waitedSeconds",
  current_inqueue_requests: "waiting",
};

/** Of every FlowSchema, by its name; its requests of all kinds. */
export async function flowCounts(api: KubeApi): Promise<(schema: string) => FlowCounts> {
  const counts = new Map<string, FlowCounts>();
  const lines = String(await api.get("/metrics")).matchAll(/^apiserver_flowcontrol_(\w+)\{(.*)\} (\S+)$/gm);
  for (const [, name = "", labels = "", value] of lines) {
    const key = METRICS[name];
    // Kubernetes 1.20 has other names of labels.
    const schema = /flow_?[sS]chema="([^"]*)"/.exec(labels)?.[1];
    if (key === undefined || schema === undefined || labels.includes('execute="false"')) continue;
    const before = counts.get(schema) ?? NOTHING;
    counts.set(schema, { ...before, [key]: before[key] + Number(value) });
  }
  return (schema) => counts.get(schema) ?? NOTHING;
}

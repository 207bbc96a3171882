import { createHash } from "node:crypto";
import type { KubeApi } from "../../../kube/kube-api.ts";
import type { Diagnosis } from "../../admin-api.ts";
import { part } from "../../diagnosis.ts";
import { get, unlessRefused } from "./reading.ts";

const APPLY = "kubectl apply -f holdfast.yaml installs them (docs/release.md)";
const CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** Our definitions, and a fingerprint of the schema of each version. */
export const SHIPPED_DEFINITIONS: Readonly<Record<string, string>> = {
  "ipallocations.ipam.holdfast.dev": "75f9df08d7a9c3f7",
  "ipnetworks.ipam.holdfast.dev": "ee757d5482b58b1a",
  "addresspools.ipam.holdfast.dev": "84950fd6ab126939",
};

interface OthersKind {
  readonly api: string;
  readonly resource: string;
  readonly state: Diagnosis["state"];
  readonly without: string;
  readonly fix: string;
}

const OTHERS: readonly OthersKind[] = [
  {
    api: "k8s.cni.cncf.io/v1",
    resource: "network-attachment-definitions",
    state: "warning",
    without: "only the cluster's default network can be served",
    fix: "install Multus: its manifest brings the definition (https://github.com/k8snetworkplumbingwg/multus-cni)",
  },
  {
    api: "k8s.cni.cncf.io/v1alpha1",
    resource: "ipamclaims",
    state: "warning",
    without: "no address outlives its pod",
    fix: "kubectl apply -f artifacts/k8s.cni.cncf.io_ipamclaims.yaml of https://github.com/k8snetworkplumbingwg/ipamclaims",
  },
  {
    api: "kubevirt.io/v1",
    resource: "virtualmachines",
    state: "ok",
    without: "there are no VMs of KubeVirt here",
    fix: "",
  },
];

export async function examineDefinitions(api: KubeApi): Promise<Diagnosis[]> {
  const ours: Diagnosis[] = [];
  for (const name of Object.keys(SHIPPED_DEFINITIONS))
    ours.push(...(await unlessRefused("definitions", () => examineOurs(api, name))));
  const isAllWell = ours.every(({ state }) => state === "ok");
  const found: Diagnosis[] = isAllWell
    ? part("definitions").ok("Holdfast's are those of this release")
    : ours.filter(({ state }) => state !== "ok");
  for (const kind of OTHERS) found.push(...(await examineOthers(api, kind)));
  return found;
}

async function examineOurs(api: KubeApi, name: string): Promise<Diagnosis[]> {
  const { ok, warning, failed } = part("definitions");
  const { status, body } = await get(api, `${CRDS_PATH}/${name}`);
  if (status === 404) return failed(`${name} is not installed`, APPLY);
  if (definitionFingerprint(body?.spec) === SHIPPED_DEFINITIONS[name]) return ok(name);
  return warning(
    `${name} is not that of this release: newer fields are dropped without a word`,
    `${APPLY}; so does helm upgrade, unless crds.install is false`,
  );
}

async function examineOthers(
  api: KubeApi,
  { api: group, resource, state, without, fix }: OthersKind,
): Promise<Diagnosis[]> {
  const { body } = await get(api, `/apis/${group}`);
  const resources: readonly { name?: string }[] = body?.resources ?? [];
  if (resources.some(({ name }) => name === resource)) return part("definitions").ok(`${resource} (${group})`);
  return part("definitions")[state](`there are no ${resource} (${group}): ${without}`, fix);
}

/** Of what a definition lets objects be. The same with the server's defaults and without them. */
// biome-ignore lint/suspicious/noExplicitAny: a spec as the API server sends it, with anything in it
export function definitionFingerprint(spec: any): string {
  const versions = (spec?.versions ?? []).map(({ name, served, storage, schema, subresources }: never) => [
    ...[name, served, storage, sorted(schema), sorted(subresources ?? {})],
  ]);
  return createHash("sha256").update(JSON.stringify(versions)).digest("hex").slice(0, 16);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, one]) => [key, sorted(one)]);
}

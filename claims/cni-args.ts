import { RefusalError, refuse } from "../ipam/refusals.ts";

export type CniArgs = ReadonlyMap<string, string>;

/** Supported keys. With `IgnoreUnknown=1`, as kubelet sets it, others are ignored. */
const KNOWN_KEYS: ReadonlySet<string> = new Set([
  "IgnoreUnknown",
  "IP",
  "GATEWAY",
  "MAC",
  "IPAM_CLAIM",
  "K8S_POD_NAMESPACE",
  "K8S_POD_NAME",
  "K8S_POD_UID",
  "K8S_POD_INFRA_CONTAINER_ID",
]);

/** `K=V;K2=V2` of the CNI specification. Throws RefusalError ENVIRONMENT_INVALID. */
export function parseCniArgs(text: string): CniArgs {
  const args = new Map<string, string>();
  for (const pair of text.split(";")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    if (equals < 1) invalid(`CNI_ARGS: "${pair}" is not of the form KEY=VALUE`);
    args.set(pair.slice(0, equals), pair.slice(equals + 1));
  }
  const ignore = args.get("IgnoreUnknown") ?? "";
  const tolerant = /^(1|true|t|yes|y|on)$/i.test(ignore);
  if (!tolerant && !/^(0|false|f|no|n|off)?$/i.test(ignore)) {
    invalid(`CNI_ARGS: IgnoreUnknown is "${ignore}": expected 1 or 0, with ";" between the pairs`);
  }
  const unknown = [...args.keys()].filter((key) => !KNOWN_KEYS.has(key));
  if (unknown.length > 0 && !tolerant) {
    invalid(`CNI_ARGS: unknown keys ${unknown.join(", ")}; remove them, or add IgnoreUnknown=1`);
  }
  return args;
}

function invalid(problem: string): never {
  throw new RefusalError(refuse("ENVIRONMENT_INVALID", { problem }));
}

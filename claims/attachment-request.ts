import type { PodIdentity } from "../allocations/records.ts";
import { isGiven, isObject } from "../ipam/definition/definition-keys.ts";
import { readMac as parseMac } from "../ipam/definition/mac.ts";
import type { Configuration, ConfigurationPath } from "../ipam/definition/read-keys.ts";
import { parseRequestedAddress, type RequestedAddress } from "../ipam/definition/requested-address.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { DEFAULT_NAMESPACE, type ObjectName, readClaimReference } from "../kube/views/claim-reference.ts";
import type { CniArgs } from "./cni-args.ts";

/** What an attachment requests beyond "an address of this network". */
export interface AttachmentRequest {
  readonly pod: PodIdentity | null;
  readonly claim: ObjectName | null;
  readonly requested: readonly RequestedAddress[];
  /** `02:00:00:00:00:01`; absent when none is requested. */
  readonly mac?: string;
}

/** Addresses that one interface may request: more than any network has range sets. */
const REQUESTED_MAX = 32;

/** Reads CNI_ARGS and the parts of the plugin configuration that belong to one container. Throws RefusalError. */
export function readAttachmentRequest(args: CniArgs, conf: Configuration): AttachmentRequest {
  const pod = readPod(args);
  const mac = readMac(args, conf);
  return {
    pod,
    claim: readClaim(args, conf, pod),
    requested: readRequested(args, conf),
    ...(mac === null ? {} : { mac }),
  };
}

/** The `mac` capability, else `args.cni.mac`, else MAC of CNI_ARGS, else the plugin's `mac`, macvlan's own key. */
function readMac(args: CniArgs, conf: Configuration): string | null {
  for (const [key, value] of [
    ...(["runtimeConfig.mac", "args.cni.mac"] as const).map((key) => [key, valueAt(conf, key)] as const),
    ["CNI_ARGS MAC", args.get("MAC")],
    ["mac", conf.mac],
  ] as const)
    if (isGiven(value)) return parseMac({ key, value });
  return null;
}

/** A pod is identified by its UID; without one (older runtimes, no Kubernetes) only the container ID is known. */
function readPod(args: CniArgs): PodIdentity | null {
  const uid = args.get("K8S_POD_UID") ?? "";
  if (uid === "") return null;
  return {
    uid,
    namespace: args.get("K8S_POD_NAMESPACE") || DEFAULT_NAMESPACE,
    name: args.get("K8S_POD_NAME") ?? "",
  };
}

/** A bare name is a claim of the pod's own namespace; a reference into another namespace is refused. */
function readClaim(args: CniArgs, conf: Configuration, pod: PodIdentity | null): AttachmentRequest["claim"] {
  const inConfig = valueAt(conf, "args.cni.ipam-claim-reference");
  const [reference, key] =
    inConfig === undefined || inConfig === null || inConfig === ""
      ? [args.get("IPAM_CLAIM") ?? "", "CNI_ARGS IPAM_CLAIM"]
      : [inConfig, "args.cni.ipam-claim-reference"];
  if (reference === "") return null;
  return readClaimReference(reference, key, pod?.namespace ?? args.get("K8S_POD_NAMESPACE"));
}

/** Every field in which a runtime can request addresses. The same address named twice counts once. */
function readRequested(args: CniArgs, conf: Configuration): RequestedAddress[] {
  const found: RequestedAddress[] = [];
  const add = (text: unknown, source: string) => {
    const one = parseRequestedAddress(text, source);
    const same = found.find(
      (other) => other.address.family === one.address.family && other.address.value === one.address.value,
    );
    if (!same) found.push(one);
    if (found.length > REQUESTED_MAX) invalid(source, text, `at most ${REQUESTED_MAX} addresses`);
  };
  for (const source of ["runtimeConfig.ips", "args.cni.ips"] as const) {
    const value = valueAt(conf, source);
    if (value === undefined || value === null) continue;
    if (!Array.isArray(value)) invalid(source, value, "a list of addresses");
    for (const one of value) add(one, source);
  }
  for (const one of (args.get("IP") ?? "").split(",")) if (one !== "") add(one, "CNI_ARGS IP");
  return found;
}

function valueAt(conf: Configuration, path: ConfigurationPath): unknown {
  let value: unknown = conf;
  for (const key of path.split(".")) {
    if (value === undefined || value === null) return undefined;
    if (!isObject(value)) invalid(path.slice(0, path.lastIndexOf(`.${key}`)), value, "an object");
    value = value[key];
  }
  return value;
}

function invalid(key: string, value: unknown, wanted: string): never {
  throw new RefusalError(refuse("CONFIG_INVALID", { key, value: JSON.stringify(value), remedy: `expected ${wanted}` }));
}

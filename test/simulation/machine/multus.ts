import type { KubeObject } from "../../harness/kube-fake/objects.ts";

const NETWORKS = "k8s.v1.cni.cncf.io/networks";
export const NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status";

/** One network that a pod selects. */
export interface Selected {
  readonly namespace: string;
  readonly name: string;
  readonly ifname: string;
  readonly mac: string | null;
  /** Name of an IPAMClaim of the pod's namespace. */
  readonly claim: string | null;
}

/**
 * Names the network that a file on the nodes gives the pod's primary interface; others have theirs from somebody else.
 */
export const PRIMARY = "simulation/primary";

/** The primary interface of a pod, where it is ours: no definition in the API names its network. */
export function primaryOf({ metadata }: KubeObject): Selected[] {
  const name: string | undefined = metadata.annotations?.[PRIMARY];
  return name === undefined ? [] : [{ namespace: "", name, ifname: "eth0", mac: null, claim: null }];
}

/** The configuration that is given to the IPAM plugin for one interface. */
export interface PluginConfig {
  readonly text: string;
  readonly network: string;
  readonly cniVersion: string;
  readonly ipamType: string;
}

/** What a pod's annotation selects, as Multus reads it. Throws an Error: the sandbox fails. */
export function selectionOf(pod: KubeObject): Selected[] {
  const text: string = pod.metadata.annotations?.[NETWORKS] ?? "";
  if (text.trim() === "") return [];
  const elements: KubeObject[] = /^\s*[[{]/.test(text) ? [JSON.parse(text)].flat() : text.split(",").map(shortForm);
  return elements.map((one, index) => {
    if (typeof one?.name !== "string") throw new Error(`network ${index + 1} has no name`);
    const claim = one["ipam-claim-reference"];
    return {
      namespace: one.namespace ?? pod.metadata.namespace,
      name: one.name,
      ifname: one.interface ?? `net${index + 1}`,
      mac: typeof one.mac === "string" ? one.mac : null,
      claim: typeof claim === "string" && claim !== "" ? claim : null,
    };
  });
}

/** `namespace/name@interface` */
function shortForm(text: string): KubeObject {
  const [rest = "", ifname] = text.trim().split("@");
  const slash = rest.indexOf("/");
  return {
    name: rest.slice(slash + 1),
    ...(slash < 0 ? {} : { namespace: rest.slice(0, slash) }),
    ...(ifname === undefined ? {} : { interface: ifname }),
  };
}

/** Throws an Error when Multus could not use the NAD. */
export function configOf(nad: Pick<KubeObject, "metadata" | "spec">): PluginConfig {
  const given = JSON.parse(nad.spec?.config || "null");
  if (given === null || typeof given !== "object") throw new Error("the NAD has no configuration");
  const [first] = Array.isArray(given.plugins) ? given.plugins : [given];
  const cniVersion = given.cniVersion || "0.3.1";
  const conf = { ...first, name: given.name || nad.metadata.name, cniVersion };
  return {
    text: JSON.stringify(conf),
    network: String(conf.name),
    cniVersion: String(cniVersion),
    ipamType: String(conf.ipam?.type ?? ""),
  };
}

/** The addresses of a CNI result of any version, with prefix lengths. */
export function ipsOf(result: KubeObject): string[] {
  if (Array.isArray(result?.ips)) return result.ips.map(({ address }: KubeObject) => String(address));
  return [result?.ip4?.ip, result?.ip6?.ip].filter((ip) => typeof ip === "string");
}

/** CNI_ARGS as container runtimes set them for a pod. */
export function argsOf(
  { namespace, name, uid }: { readonly namespace: string; readonly name: string; readonly uid: string },
  containerId: string,
): string {
  const pod = `K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_UID=${uid}`;
  return `IgnoreUnknown=1;${pod};K8S_POD_INFRA_CONTAINER_ID=${containerId}`;
}

/** An attachment, for the annotation. */
export interface Reported {
  readonly selected: Selected;
  readonly mac: string;
  readonly ips: readonly string[];
}

/** The annotation in which Multus tells what a pod has. */
export function networkStatus(podIp: string, attachments: readonly Reported[]): string {
  const primary = { name: "cluster-default", interface: "eth0", ips: [podIp], default: true, dns: {} };
  const others = attachments.map(({ selected, mac, ips }) => ({
    name: `${selected.namespace}/${selected.name}`,
    interface: selected.ifname,
    ips: ips.map((ip) => ip.slice(0, ip.indexOf("/"))),
    mac,
    dns: {},
  }));
  return JSON.stringify([primary, ...others]);
}

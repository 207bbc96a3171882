import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { HOST_PORT_EXPECTED, type HostPort, isHostPort, parseHostPort } from "../../platform/host-port.ts";
import { SettingsError, settingRefused } from "../../platform/settings.ts";
import { readEnvironment } from "../../platform/settings-environment.ts";

/** In `kubeconfig`: as a pod of the cluster. */
const IN_CLUSTER = "in-cluster";

const text = z.string().min(1);
const whole = (min: number, max: number) => z.coerce.number().int().min(min).max(max);

/** Every setting of the metadata server. The same names as `--kebab-case` flags and as `HOLDFAST_UPPER_CASE`. */
const settings = z.strictObject({
  /** Unix socket on which the listeners of this node ask. */
  metadataSocket: text.default("/run/holdfast/metadata.sock"),
  /** Group, name or number, that may connect to it. Default: haproxy where there is such a group and it may be set, else none. */
  metadataSocketGroup: text.optional(),
  /** The daemon's read-only socket. */
  identitySocket: text.default("/run/holdfast/identity.sock"),
  /** `http[s]://host[:port]` of a Nova-like metadata service: guests of all networks without a backend of their own are forwarded to it. */
  novaUrl: text.optional(),
  /** File with the secret that is shared with it; without `novaUrl`, with the Services. */
  secretFile: text.optional(),
  /** File with the secret that is shared with networks' Services. Never Nova's: a tenant could show Nova what was signed for it. */
  serviceSecretFile: text.optional(),
  /** Certificates, PEM, of the authorities that a backend with https is believed by. Default: those of Node. */
  novaCaFile: text.optional(),
  /** Longest wait for a backend's whole answer. */
  backendTimeoutSeconds: whole(1, 70).default(60),
  /** Folder of what this server itself keeps: guests' passwords, and the keys unless `keyFile` names others. */
  state: text.default("/var/lib/holdfast-metadata"),
  /** File with the keys of tokens, one a line, the newest first. Default: `keys` in the state folder. */
  keyFile: text.optional(),
  /** Path of a kubeconfig file, or `in-cluster`. Default: the pod's own cluster; outside of one, none. */
  kubeconfig: text.optional(),
  /** This node's name in Kubernetes: only the endpoints on it are asked. Default: the host name. */
  node: text.optional(),
  /** Fixed by its deployment, the network of all requests; they come by TCP then, see `listen`. */
  network: text.optional(),
  /** `host:port` served instead of the socket, together with `network`. */
  listen: text.refine(isHostPort, HOST_PORT_EXPECTED).optional(),
  /** IMDSv2 tokens of that network, whose definition is not ours to read them from. Default: optional. */
  tokens: z.enum(["off", "optional", "required"]).optional(),
  /** `host:port` of /healthz, /readyz and /metrics, or off. */
  metricsAddress: text
    .refine((given) => given === "off" || isHostPort(given), `${HOST_PORT_EXPECTED}, or off`)
    .default("127.0.0.1:9810"),
  logLevel: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
});

type Parsed = z.output<typeof settings>;

export interface MetadataSettings
  extends Omit<Parsed, "kubeconfig" | "metricsAddress" | "listen" | "network" | "novaUrl"> {
  readonly keyFile: string;
  /** Was a key file asked for? Only the default one is made. */
  readonly makeKeys: boolean;
  readonly node: string;
  readonly novaUrl: URL | null;
  /** null: this node stands alone. `kubeconfig` null: as a pod of the cluster. */
  readonly kubernetes: { readonly kubeconfig: string | null } | null;
  /** null: the unix socket is served. */
  readonly fixed: { readonly network: string; readonly listen: HostPort } | null;
  /** null: off. */
  readonly metricsAddress: HostPort | null;
}

export const METADATA_SETTING_NAMES: readonly string[] = Object.keys(settings.shape);

/** Flags win over the environment. Throws SettingsError, whose message names setting, value and source. */
export function loadMetadataSettings(
  flags: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): MetadataSettings {
  const unknown = Object.keys(flags).find((key) => !METADATA_SETTING_NAMES.includes(key));
  if (unknown !== undefined)
    throw new SettingsError(
      `command line: unknown setting ${unknown}; known are ${METADATA_SETTING_NAMES.join(", ")}`,
    );
  const merged: Record<string, unknown> = { ...readEnvironment(env, METADATA_SETTING_NAMES), ...flags };
  const source = (key: string) => (key in flags ? "command line" : "environment");
  const refused = (key: string, why: string) => settingRefused(source(key), { key, value: merged[key] }, why);
  const parsed = settings.safeParse(merged);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw refused(String(issue?.path[0] ?? ""), issue?.message ?? "not usable");
  }
  const { kubeconfig, metricsAddress, network, listen, novaUrl, ...rest } = parsed.data;
  if ((network === undefined) !== (listen === undefined)) {
    const [given, missing] = network === undefined ? ["listen", "network"] : ["network", "listen"];
    throw refused(given as string, `it goes together with ${missing}, which is not given`);
  }
  if (rest.tokens !== undefined && network === undefined)
    throw refused(
      "tokens",
      "it goes together with network; else tokens are a matter of each network's definition",
    );
  return {
    ...rest,
    keyFile: rest.keyFile ?? join(rest.state, "keys"),
    makeKeys: rest.keyFile === undefined,
    node: rest.node ?? hostname(),
    novaUrl: novaUrl === undefined ? null : readBackendUrl(novaUrl, (why) => refused("novaUrl", why)),
    kubernetes: kubernetesOf(kubeconfig, env),
    fixed: network === undefined || listen === undefined ? null : { network, listen: parseHostPort(listen) },
    metricsAddress: metricsAddress === "off" ? null : parseHostPort(metricsAddress),
  };
}

/** Only scheme, host and port: a path would let guests climb out of it, and credentials would be logged. */
function readBackendUrl(given: string, refused: (why: string) => SettingsError): URL {
  if (!URL.canParse(given)) throw refused("a URL is wanted, such as http://10.0.0.5:8775");
  const url = new URL(given);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw refused("http or https is wanted");
  if (url.username !== "" || url.password !== "") throw refused("credentials have no place in it");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "")
    throw refused(`the path of the guest's request goes to it; write ${url.origin}`);
  return url;
}

function kubernetesOf(
  kubeconfig: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): MetadataSettings["kubernetes"] {
  if (kubeconfig !== undefined) return { kubeconfig: kubeconfig === IN_CLUSTER ? null : kubeconfig };
  return env.KUBERNETES_SERVICE_HOST ? { kubeconfig: null } : null;
}

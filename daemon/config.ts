import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { HOST_LOCAL_DATA_DIR } from "../ipam/definition/host-local-lease.ts";
import { BOOT_ID_FILE_DEFAULT } from "../platform/boot-id.ts";
import { DAEMON_SETTING_NAMES } from "../platform/daemon-settings.ts";
import { findGid } from "../platform/groups.ts";
import { HOST_PORT_EXPECTED, type HostPort, isHostPort, parseHostPort } from "../platform/host-port.ts";
import { SettingsError, settingRefused } from "../platform/settings.ts";
import type { HostLocalDirs } from "../store/host-local/takeover.ts";

/** Read when it is there and --config names no other. */
const CONFIG_FILE_DEFAULT = "/etc/holdfast/daemon.yaml";

/** Below the 60 s after which the plugin binary gives up, and below a container runtime's own time-out. */
const ADD_DEADLINE_MS_DEFAULT = 9_000;

const RESOLV_CONF_PATHS_DEFAULT = [
  "/etc/resolv.conf",
  "/run/systemd/resolve/resolv.conf",
  "/run/systemd/resolve/stub-resolv.conf",
] as const;

const text = z.string().min(1);
/** Several absolute paths: a list in the file, else one text with commas between them. */
const paths = z.preprocess(
  (given) => (typeof given === "string" ? given.split(",").map((one) => one.trim()) : given),
  z.array(z.string().startsWith("/", { message: "absolute paths are required" })).min(1),
);
const whole = (min: number, max: number) => z.coerce.number().int().min(min).max(max);

/** Every setting of the daemon. The same names in the file, as `--kebab-case` flags and as `HOLDFAST_UPPER_CASE`. */
const settings = z.strictObject({
  /** Folder of the state database. One daemon each. */
  state: text.default("/var/lib/holdfast"),
  /** Unix socket served, mode 0600. */
  socket: text.default("/run/holdfast/holdfast.sock"),
  /** A second socket, which only tells who is behind an address. Default: `identity.sock` beside the other; "" or "off": none. */
  identitySocket: z.string().optional(),
  /** The group, by name or number, that may connect to it. Default: only the daemon's own user. */
  identityGroup: z.coerce.string().optional(),
  /** Where the plugin binary leaves DELs it could not deliver. Default: `spool` in the state folder. */
  spool: text.optional(),
  /** Name recorded with attachments; in Kubernetes the name of the Node object. Default: the host name. */
  node: text.optional(),
  /** Where the Kubernetes API is. Without it: the pod's own cluster, or none at all outside of one. */
  kubeconfig: text.optional(),
  logLevel: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
  /** A file whose first line is the boot ID of this machine, as the plugin binary sees it. */
  bootIdFile: text.default(BOOT_ID_FILE_DEFAULT),
  /** How long an ADD may wait (for a claim that does not exist yet) before it is answered "try again". */
  addDeadlineMs: whole(100, 50_000).default(ADD_DEADLINE_MS_DEFAULT),
  /** How often the namespaces of attachments are looked at. */
  witnessIntervalSeconds: whole(1, 3_600).default(30),
  /** How long a namespace must have been gone before its attachment is ended as if by DEL. */
  witnessGraceSeconds: whole(1, 86_400).default(300),
  /** In Kubernetes: how often what this node believes to hold is compared with the API, besides after every loss of touch. */
  reassertIntervalSeconds: whole(1, 86_400).default(300),
  /** `host:port` of /healthz, /readyz and /metrics, `:port` for every address, or off. */
  metricsAddress: z
    .string()
    .refine((given) => given === "off" || isHostPort(given), `${HOST_PORT_EXPECTED}, or "off"`)
    .default("off"),
  /** After allocations were found to be taken away: until the last node may have put back what its containers use. */
  recoverySeconds: whole(1, 3_600).default(30),
  /** Off: no metadata listener is wanted on this node, whatever its networks say. */
  metadata: z.enum(["on", "off"]).default("on"),
  /** How long an ADD waits for the metadata listener of its network before it is answered without. */
  metadataWaitMs: whole(0, 30_000).default(3_000),
  /** The files that `ipam.resolvConf` of a network may name. Default: the system's and those of systemd-resolved. */
  resolvConfPaths: paths.default([...RESOLV_CONF_PATHS_DEFAULT]),
  /**
   * Folders in which host-local may have kept addresses; the first is where it did without `dataDir`. Default: its own
   * default, and alone on a node also whatever `dataDir` a configuration names.
   */
  hostLocalDirs: paths.optional(),
  /** On: in Kubernetes too, where whoever may write a NetworkAttachmentDefinition writes it. */
  resolvConfInNads: z.enum(["on", "off"]).default("off"),
});

export type Settings = Omit<
  z.output<typeof settings>,
  "kubeconfig" | "identitySocket" | "identityGroup" | "metricsAddress" | "hostLocalDirs"
> & {
  /** null: off. */
  readonly metricsAddress: HostPort | null;
  readonly hostLocalDirs: HostLocalDirs;
  /** null: there is none. */
  readonly identitySocket: string | null;
  /** GID; null: the daemon's own user alone. */
  readonly identityGroup: number | null;
  readonly spool: string;
  readonly node: string;
  /** null: this node stands alone. `kubeconfig` null: as a pod of the cluster. */
  readonly kubernetes: { readonly kubeconfig: string | null } | null;
};
export const SETTING_NAMES: readonly (keyof z.input<typeof settings>)[] = DAEMON_SETTING_NAMES;

/** Flags win over the environment, which wins over the file. Throws SettingsError. */
export function loadSettings(
  flags: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): Settings {
  const { config: flagged, ...flagValues } = flags;
  const path = (flagged as string | undefined) ?? env.HOLDFAST_CONFIG;
  const sources: [string, Record<string, unknown>][] = [
    [path ?? CONFIG_FILE_DEFAULT, readFile(path)],
    ["environment", readEnvironment(env)],
    ["command line", flagValues],
  ];
  for (const [source, values] of sources) {
    const unknown = Object.keys(values).find((key) => !SETTING_NAMES.includes(key as never));
    if (unknown !== undefined) {
      throw new SettingsError(`${source}: unknown setting ${unknown}; known are ${SETTING_NAMES.join(", ")}`);
    }
  }
  const merged = Object.assign({}, ...sources.map(([, values]) => values)) as Record<string, unknown>;
  const refused = (key: string, remedy: string) => {
    const source = sources.findLast(([, values]) => key in values)?.[0] ?? "default";
    return settingRefused(source, { key, value: merged[key] }, remedy);
  };
  const parsed = settings.safeParse(merged);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw refused(String(issue?.path[0] ?? ""), issue?.message ?? "not usable");
  }
  const { spool, node, kubeconfig, identitySocket, identityGroup, metricsAddress, hostLocalDirs, ...rest } =
    parsed.data;
  const kubernetes = kubernetesOf(kubeconfig, env);
  return {
    ...rest,
    hostLocalDirs: hostLocalDirsOf(hostLocalDirs, kubernetes !== null),
    identitySocket: identitySocketOf(identitySocket, rest.socket),
    identityGroup: identityGroup ? gidOf(identityGroup, (why) => refused("identityGroup", why)) : null,
    metricsAddress: metricsAddress === "off" ? null : parseHostPort(metricsAddress),
    spool: spool ?? join(rest.state, "spool"),
    node: node ?? hostname(),
    kubernetes,
  };
}

function identitySocketOf(given: string | undefined, socket: string): string | null {
  if (given === undefined) return join(dirname(socket), "identity.sock");
  return given === "" || given === "off" ? null : given;
}

/** A cluster's configurations are written by its tenants, and what is not mounted would look empty: only what an operator names. */
function hostLocalDirsOf(given: readonly string[] | undefined, inCluster: boolean): HostLocalDirs {
  const [standard = HOST_LOCAL_DATA_DIR] = given ?? [];
  return { standard, allowed: given ?? (inCluster ? [HOST_LOCAL_DATA_DIR] : null) };
}

function gidOf(group: string, refused: (why: string) => SettingsError): number {
  const gid = findGid(group);
  if (gid !== null) return gid;
  throw refused(
    `there is no such group in /etc/group; add it (groupadd --system ${group}), or give a number`,
  );
}

function kubernetesOf(
  kubeconfig: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Settings["kubernetes"] {
  if (kubeconfig !== undefined) return { kubeconfig };
  // A pod without a token must fail and say so: alone, each node would give out the same addresses.
  return env.KUBERNETES_SERVICE_HOST ? { kubeconfig: null } : null;
}

function readFile(path: string | undefined): Record<string, unknown> {
  if (path === undefined && !existsSync(CONFIG_FILE_DEFAULT)) return {};
  const file = path ?? CONFIG_FILE_DEFAULT;
  let content: unknown;
  try {
    content = parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new SettingsError(`${file} cannot be read: ${(error as Error).message}`);
  }
  if (content === null || content === undefined) return {};
  if (typeof content !== "object" || Array.isArray(content)) {
    throw new SettingsError(`${file}: a mapping of settings is wanted, such as "logLevel: debug"`);
  }
  return content as Record<string, unknown>;
}

/** Not settings of ours: the plugin binary's own, the test hook, and what Kubernetes sets for a Service called holdfast. */
const FOREIGN = /^HOLDFAST_(CONFIG|SHIM_.*|KILL_POINT|TEST_.*|(.*_)?SERVICE_(HOST|PORT.*)|(.*_)?PORT(_.*)?)$/;

function readEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith("HOLDFAST_") || value === undefined || FOREIGN.test(name)) continue;
    const key = name
      .slice("HOLDFAST_".length)
      .toLowerCase()
      .replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    if (!SETTING_NAMES.includes(key as never)) {
      throw new SettingsError(
        `environment: unknown setting ${name}; remove it, or see the settings in docs/operations.md`,
      );
    }
    values[key] = value;
  }
  return values;
}

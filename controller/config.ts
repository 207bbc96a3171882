import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { z } from "zod";
import { SETTING_NAMES as DAEMON_SETTING_NAMES } from "../daemon/config.ts";
import { HOST_PORT_EXPECTED, type HostPort, isHostPort, parseHostPort } from "../platform/host-port.ts";
import { SettingsError, settingRefused } from "../platform/settings.ts";

/** In `kubeconfig`: as a pod of the cluster, also the default. */
const IN_CLUSTER = "in-cluster";
const NAMESPACE_DEFAULT = "holdfast-system";

const text = z.string().min(1);
const whole = (min: number, max: number) => z.coerce.number().int().min(min).max(max);

/** Every setting of the controller. The same names as `--kebab-case` flags and as `HOLDFAST_UPPER_CASE`. */
const settings = z.strictObject({
  /** Path of a kubeconfig file, or `in-cluster`. */
  kubeconfig: text.default(IN_CLUSTER),
  /** Namespace of the lease. Default: POD_NAMESPACE, else holdfast-system. */
  namespace: text.optional(),
  /** Name of this process in the lease. Default: the host name and something random. */
  identity: text.optional(),
  /** `host:port` of /healthz, /readyz and /metrics; `:port` is every address. */
  metricsAddress: text.refine(isHostPort, HOST_PORT_EXPECTED).default("127.0.0.1:9808"),
  /** How often everything is judged, besides soon after events. */
  sweepIntervalSeconds: whole(1, 3_600).default(10),
  /** How long a reason to free an address must have stood. */
  sweepGraceSeconds: whole(1, 86_400).default(30),
  /** How much longer than its rest a released address keeps its object. */
  coolingKeepSeconds: whole(0, 604_800).default(600),
  /** How long a pod must have been gone, and its node unreachable, before its container counts as ended; 0: never. */
  podGoneReleaseSeconds: whole(0, 604_800).default(0),
  logLevel: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
});

type Parsed = z.output<typeof settings>;
export interface ControllerSettings extends Omit<Parsed, "kubeconfig" | "metricsAddress"> {
  /** null: as a pod of the cluster. */
  readonly kubeconfig: string | null;
  readonly namespace: string;
  readonly identity: string;
  readonly metricsAddress: HostPort;
}

export const CONTROLLER_SETTING_NAMES: readonly string[] = Object.keys(settings.shape);

/** Flags win over the environment. Throws SettingsError, whose message names setting, value and source. */
export function loadControllerSettings(
  flags: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): ControllerSettings {
  const fromEnvironment = readEnvironment(env);
  const unknown = Object.keys(flags).find((key) => !CONTROLLER_SETTING_NAMES.includes(key));
  if (unknown !== undefined)
    throw new SettingsError(
      `command line: unknown setting ${unknown}; known are ${CONTROLLER_SETTING_NAMES.join(", ")}`,
    );
  const merged: Record<string, unknown> = { ...fromEnvironment, ...flags };
  const parsed = settings.safeParse(merged);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const key = String(issue?.path[0] ?? "");
    const source = key in flags ? "command line" : "environment";
    throw settingRefused(source, { key, value: merged[key] }, issue?.message ?? "not usable");
  }
  const { kubeconfig, namespace, identity, metricsAddress, ...rest } = parsed.data;
  return {
    ...rest,
    kubeconfig: kubeconfig === IN_CLUSTER ? null : kubeconfig,
    namespace: namespace ?? (env.POD_NAMESPACE || NAMESPACE_DEFAULT),
    identity: identity ?? `${hostname()}_${randomUUID()}`,
    metricsAddress: parseHostPort(metricsAddress),
  };
}

/** Not settings: the plugin binary's, the test hooks, and what Kubernetes sets for a Service called holdfast. */
const FOREIGN = /^HOLDFAST_(CONFIG|SHIM_.*|KILL_POINT|TEST_.*|(.*_)?SERVICE_(HOST|PORT.*)|(.*_)?PORT(_.*)?)$/;

function readEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith("HOLDFAST_") || value === undefined || FOREIGN.test(name)) continue;
    const key = name
      .slice("HOLDFAST_".length)
      .toLowerCase()
      .replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    // What a shell exports for the command line or a daemon (HOLDFAST_SOCKET) is not about this process.
    if (DAEMON_SETTING_NAMES.includes(key as never) && !CONTROLLER_SETTING_NAMES.includes(key)) continue;
    if (!CONTROLLER_SETTING_NAMES.includes(key))
      throw new SettingsError(
        `environment: unknown setting ${name}; remove it, or see docs/kubernetes-controller.md`,
      );
    values[key] = value;
  }
  return values;
}

import { z } from "zod";
import { HOST_PORT_EXPECTED, type HostPort, isHostPort, parseHostPort } from "../../platform/host-port.ts";
import { SettingsError, settingRefused } from "../../platform/settings.ts";
import { readEnvironment } from "../../platform/settings-environment.ts";
import { METADATA_SETTING_NAMES } from "../server/settings.ts";

/** What one guest may need: its boot is 28 requests within a second, and it may boot twice. */
const RATE_LIMIT_MIN = 60;

const text = z.string().min(1);
const absolute = text.regex(/^\/[^\s"'\\]*$/, "an absolute path without blanks is wanted");

/** Every setting of metadata-net. The same names as `--kebab-case` flags and as `HOLDFAST_UPPER_CASE`. */
const settings = z.strictObject({
  /** The daemon's socket. */
  socket: absolute.default("/run/holdfast/holdfast.sock"),
  /** Socket of `holdfast metadata`. */
  metadataSocket: absolute.default("/run/holdfast/metadata.sock"),
  /** Generated configuration, sockets and memory. Names of links, namespaces and tables follow from it. */
  runDir: absolute
    .refine(
      (path) => Buffer.byteLength(path) <= 80,
      "at most 80 bytes, or the sockets in it have too long names",
    )
    .default("/run/holdfast/metadata-net"),
  haproxy: text.default("haproxy"),
  /** Who haproxy runs as. */
  haproxyUser: text.regex(/^[\w.-]+$/, "the name of a user is wanted").default("haproxy"),
  haproxyGroup: text.regex(/^[\w.-]+$/, "the name of a group is wanted").default("haproxy"),
  /** Requests in 10 s of one source; 0: no limit. */
  rateLimit: z.coerce
    .number()
    .int()
    .min(0)
    .max(1_000_000)
    .refine(
      (limit) => limit === 0 || limit >= RATE_LIMIT_MIN,
      `0 (off) or at least ${RATE_LIMIT_MIN} requests in 10 s: one boot is 28 requests in a second`,
    )
    .default(0),
  /** `host:port` of /healthz, /readyz and /metrics, or `off`. */
  metricsAddress: text
    .refine((given) => given === "off" || isHostPort(given), `${HOST_PORT_EXPECTED}, or off`)
    .default("127.0.0.1:9809"),
  logLevel: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
});

type Parsed = z.output<typeof settings>;
export interface NetSettings extends Omit<Parsed, "metricsAddress"> {
  /** null: not served. */
  readonly metricsAddress: HostPort | null;
}

const NAMES: readonly string[] = Object.keys(settings.shape);

/**
 * Flags win over the environment, of which variables that belong to other parts of Holdfast pass unread. Throws
 * SettingsError, whose message names setting, value and source.
 */
export function loadNetSettings(
  flags: Readonly<Record<string, unknown>>,
  env: Readonly<Record<string, string | undefined>>,
): NetSettings {
  const unknown = Object.keys(flags).find((key) => !NAMES.includes(key));
  if (unknown !== undefined)
    throw new SettingsError(`command line: unknown setting ${unknown}; known are ${NAMES.join(", ")}`);
  const merged: Record<string, unknown> = {
    ...readEnvironment(env, NAMES, METADATA_SETTING_NAMES),
    ...flags,
  };
  const parsed = settings.safeParse(merged);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const key = String(issue?.path[0] ?? "");
    const source = key in flags ? "command line" : "environment";
    throw settingRefused(source, { key, value: merged[key] }, issue?.message ?? "not usable");
  }
  const { metricsAddress, ...rest } = parsed.data;
  return { ...rest, metricsAddress: metricsAddress === "off" ? null : parseHostPort(metricsAddress) };
}

import { type Environment, type Given, loadSettings } from "../platform/settings/load.ts";
import type { METADATA_NET_SETTINGS } from "../platform/settings/metadata-net.ts";
import type { ValuesOf } from "../platform/settings/setting.ts";

/** What one guest may need: its boot is 28 requests within a second, and it may boot twice. */
const RATE_LIMIT_MIN = 60;
/** Sockets are in it, whose names have at most 107 bytes. */
const RUN_DIR_BYTES_MAX = 80;

export type NetSettings = ValuesOf<typeof METADATA_NET_SETTINGS>;

/** Flags win over the environment. Throws SettingsError, also for what haproxy's configuration has no room for. */
export function loadNetSettings(flags: Given, env: Environment): NetSettings {
  const { values, refused } = loadSettings("metadata-net", flags, env);
  for (const name of ["socket", "metadataSocket", "balancersSocket", "runDir", "state"] as const)
    if (!/^\/[^\s"'\\]*$/.test(values[name])) throw refused(name, "expected an absolute path without blanks");
  const { ovnNorthbound } = values;
  if (ovnNorthbound !== undefined && ovnNorthbound !== "off" && !/^(unix:)?\/\S+$/.test(ovnNorthbound))
    throw refused("ovnNorthbound", "expected unix:/path of a socket, or off: balancers need the node's own database");
  if (Buffer.byteLength(values.runDir) > RUN_DIR_BYTES_MAX)
    throw refused("runDir", `at most ${RUN_DIR_BYTES_MAX} bytes, or the sockets in it have too long names`);
  if (values.ovsdbSocket !== "off" && !/^\/[^\s"'\\]*$/.test(values.ovsdbSocket))
    throw refused("ovsdbSocket", "expected an absolute path without blanks, or off");
  for (const [name, what] of [
    ["haproxyUser", "user"],
    ["haproxyGroup", "group"],
  ] as const)
    if (!/^[\w.-]+$/.test(values[name] ?? "default")) throw refused(name, `expected the name of a ${what}`);
  if (values.rateLimit !== 0 && values.rateLimit < RATE_LIMIT_MIN)
    throw refused(
      "rateLimit",
      `0 (off) or at least ${RATE_LIMIT_MIN} requests in 10 s: one boot is 28 requests in a second`,
    );
  return values;
}

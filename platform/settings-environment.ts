import { DAEMON_SETTING_NAMES } from "./daemon-settings.ts";
import { SettingsError } from "./settings.ts";

/** Not settings: test hooks, what Kubernetes sets for a Service called holdfast, and the plugin binary's own. */
const FOREIGN = /^HOLDFAST_(CONFIG|SHIM_.*|KILL_POINT|TEST_.*|(.*_)?SERVICE_(HOST|PORT.*)|(.*_)?PORT(_.*)?)$/;

/**
 * Values of the variables `HOLDFAST_UPPER_CASE` that are settings of one part, by name. Those of the daemon, and of `others`
 * on the same node, pass unread. Throws SettingsError for any other: whoever misspells a limit must not believe in it.
 */
export function readEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  own: readonly string[],
  others: readonly string[] = [],
): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  const passes: readonly string[] = [...DAEMON_SETTING_NAMES, ...others];
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith("HOLDFAST_") || value === undefined || FOREIGN.test(name)) continue;
    const key = name
      .slice("HOLDFAST_".length)
      .toLowerCase()
      .replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    if (own.includes(key)) values[key] = value;
    else if (!passes.includes(key))
      throw new SettingsError(
        `environment: unknown setting ${name}; remove it, or see the settings in docs/operations.md`,
      );
  }
  return values;
}

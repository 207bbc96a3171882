/** A setting that cannot be used; the message names it, its value and its source. */
export class SettingsError extends Error {}

/** The form of every refusal of a setting: its source, name and value, and what is expected. */
export function settingRefused(
  source: string,
  { key, value }: { readonly key: string; readonly value: unknown },
  remedy: string,
): SettingsError {
  return new SettingsError(`${source}: ${key} is ${JSON.stringify(value) ?? "absent"}: ${remedy}`);
}

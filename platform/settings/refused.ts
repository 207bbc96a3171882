/** A setting that cannot be used; the message names it, its value and where it came from. */
export class SettingsError extends Error {}

/** The one form in which a setting is refused: where it was given, its name, its value, and what is expected. */
export function settingRefused(
  source: string,
  { key, value }: { readonly key: string; readonly value: unknown },
  remedy: string,
): SettingsError {
  return new SettingsError(`${source}: ${key} is ${JSON.stringify(value) ?? "absent"}: ${remedy}`);
}

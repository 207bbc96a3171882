import { type Address, formatAddress } from "./space/address.ts";

/** The names in braces of a template. */
export type Placeholder<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Placeholder<Rest>
  : never;

/**
 * Puts values in place of the names in braces; one pass, so that a value which itself contains `{…}` stays as it is.
 */
export function fill(template: string, values: Readonly<Record<string, string | number | Address>>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`refusal text "${template}" needs a value for ${name}`);
    return typeof value === "object" ? formatAddress(value) : String(value);
  });
}

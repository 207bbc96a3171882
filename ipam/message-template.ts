import { type Address, formatAddress } from "./space/address.ts";

export type Placeholder<Text extends string> = Text extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Placeholder<Rest>
  : never;

/** Puts values in place of names in braces; in one pass, so that a value that itself contains `{…}` stays as it is. */
export function fill(template: string, values: Readonly<Record<string, string | number | Address>>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`refusal text "${template}" needs a value for ${name}`);
    return typeof value === "object" ? formatAddress(value) : String(value);
  });
}

import { isTooDeep, TOO_DEEP } from "../ipam/definition/bounded-json.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { Address } from "../ipam/space/address.ts";

/** The query of a request. An unknown or repeated parameter is refused by name. */
export function readQuery(query: unknown, known: readonly string[]): Readonly<Record<string, string | undefined>> {
  for (const [key, value] of Object.entries(query as Record<string, unknown>)) {
    if (!known.includes(key)) invalid(key, value, `the parameters here are ${known.join(", ") || "none"}`);
    if (typeof value !== "string" || value === "") invalid(key, value, "expected one value");
  }
  return query as Record<string, string>;
}

/** An address in any notation, with or without a prefix length. */
export function readAddress(key: string, text: unknown, parse: (text: string) => Address): Address {
  try {
    if (typeof text !== "string") throw new Error("expected a string");
    return parse(text.split("/")[0] ?? "");
  } catch (error) {
    return invalid(key, text, (error as Error).message);
  }
}

/** The body of a request as an object with only the known keys. */
export function readBody(body: unknown, known: readonly string[]): Readonly<Record<string, unknown>> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) invalid("body", body, "expected a JSON object");
  if (isTooDeep(body))
    throw new RefusalError(refuse("REQUEST_INVALID", { key: "body", value: "refused", remedy: TOO_DEEP }));
  for (const [key, value] of Object.entries(body)) {
    if (!known.includes(key)) invalid(key, value, `the keys here are ${known.join(", ")}`);
  }
  return body as Readonly<Record<string, unknown>>;
}

export function invalid(key: string, value: unknown, remedy: string): never {
  throw new RefusalError(refuse("REQUEST_INVALID", { key, value: JSON.stringify(value) ?? "absent", remedy }));
}

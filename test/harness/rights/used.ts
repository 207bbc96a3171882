import type { Access } from "../kube-fake/requests.ts";
import { allows, type ShippedRight, shippedRights, titleOf } from "./shipped.ts";

/** Of the test file that runs in this worker. */
const used = new Set<string>();
/** What was looked up already, by everything that counts of an access. */
const known = new Map<string, boolean>();
let rights: readonly ShippedRight[] | null = null;
let names: ReadonlySet<string | null> | null = null;

/** Notes what the product does with a right; whether the shipped roles allow it. */
export function mayUse(access: Access): boolean {
  rights ??= shippedRights();
  names ??= new Set(rights.map(({ name }) => name));
  const { user, verb, group, resource, subresource, name } = access;
  const key = [user.username, verb, group, resource, subresource, names.has(name) ? name : ""].join(" ");
  const before = known.get(key);
  if (before !== undefined) return before;
  const granting = rights.filter((right) => allows(right, access));
  for (const right of granting) used.add(titleOf(right));
  known.set(key, granting.length > 0);
  return granting.length > 0;
}

/** Titles of the rights that were used since the last call. */
export function takeUsedRights(): string[] {
  const titles = [...used].sort();
  used.clear();
  known.clear();
  return titles;
}

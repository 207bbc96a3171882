import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import type { ClaimRow } from "../journal/rows.ts";

/** The annotations of a claim as applied; `{}` where there is nothing of that kind. */
export function annotationsOf({ manifest }: Pick<ClaimRow, "manifest">): JsonObject {
  const { annotations } = (JSON.parse(manifest) as { metadata: { annotations?: unknown } }).metadata;
  return isObject(annotations) ? annotations : {};
}

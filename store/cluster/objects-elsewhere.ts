import { RefusalError, refuse } from "../../ipam/refusals.ts";

/** The refusal of what only kubectl does in a cluster. */
export function elsewhere(kind: string): Promise<never> {
  const remedy = "objects are kept by the Kubernetes API here; use kubectl";
  return Promise.reject(new RefusalError(refuse("REQUEST_INVALID", { key: "kind", value: kind, remedy })));
}

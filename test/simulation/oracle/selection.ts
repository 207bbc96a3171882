import type { PlainObject } from "./view.ts";

/** Names of the claims that a pod's annotations name, for whatever interface. */
export function claimsNamedBy(pod: PlainObject): string[] {
  const annotations = pod.metadata.annotations ?? {};
  const texts = [annotations["k8s.v1.cni.cncf.io/networks"], annotations["v1.multus-cni.io/default-network"]];
  return texts.flatMap((text) =>
    elementsOf(text).flatMap((element) => {
      const name = element?.["ipam-claim-reference"];
      return typeof name === "string" && name !== "" ? [name] : [];
    }),
  );
}

function elementsOf(text: unknown): PlainObject[] {
  if (typeof text !== "string") return [];
  try {
    const read = JSON.parse(text);
    return Array.isArray(read) ? read : [read];
  } catch {
    return [];
  }
}

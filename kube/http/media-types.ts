const JSON_TYPE = "application/json";

export const PATCH_TYPES = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
} as const;

/** The Accept header of a list or a watch. Metadata is asked for first; a server that cannot sends whole objects. */
export function acceptOf(what: "list" | "watch", metadataOnly = false): string {
  if (!metadataOnly) return JSON_TYPE;
  const kind = what === "list" ? "PartialObjectMetadataList" : "PartialObjectMetadata";
  return `${JSON_TYPE};as=${kind};g=meta.k8s.io;v=v1,${JSON_TYPE}`;
}

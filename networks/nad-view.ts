import { type ObjectMetadata, objectAt, readMetadata, readTexts } from "../kube/views/object-metadata.ts";
import { readSharedWith, SHARED_WITH_ANNOTATION } from "./network-owner.ts";

export interface NadView extends ObjectMetadata {
  /** `spec.config`; "" when the configuration is in a file on the nodes. */
  readonly config: string;
  /** Incremented by the server at every change of `spec`; 0 when it is missing. */
  readonly generation: number;
  /** The namespaces that the annotation shares its network with. */
  readonly sharedWith: readonly string[];
}

/** Throws MalformedObjectError. */
export function projectNad(object: unknown): NadView {
  const metadata = readMetadata(object, "NetworkAttachmentDefinition");
  const { config } = objectAt(object, "spec", "NetworkAttachmentDefinition");
  const { generation } = objectAt(object, "metadata", "NetworkAttachmentDefinition");
  return {
    ...metadata,
    config: typeof config === "string" ? config : "",
    generation: typeof generation === "number" ? generation : 0,
    sharedWith: readSharedWith(readTexts(object, "annotations").get(SHARED_WITH_ANNOTATION)),
  };
}

import { NETWORK_STATUS_ANNOTATION, POD_NETWORKS_ANNOTATION } from "./held-addresses.ts";
import { SELECTION_ANNOTATIONS } from "./network-selection.ts";
import { type ObjectMetadata, objectAt, readMetadata, readOwners, readTexts } from "./object-metadata.ts";

/** The few fields kept of a pod: ten thousand of them are held in memory. */
export interface PodView extends ObjectMetadata {
  /** null: not scheduled yet. */
  readonly node: string | null;
  /** "" while nobody has written one. */
  readonly phase: string;
  /** Its containers have ended and never run again. An unknown phase is none of these. */
  readonly terminal: boolean;
  readonly hostNetwork: boolean;
  /** The kubelet's own UID of a static pod, which CNI_ARGS carry in place of the API object's. */
  readonly staticUid: string | null;
  /** The KubeVirt VMI that this pod runs. */
  readonly vmi: { readonly name: string; readonly uid: string } | null;
  /** Only those that are read here. */
  readonly annotations: Readonly<Record<string, string>>;
}

const STATIC_UID_ANNOTATION = "kubernetes.io/config.mirror";
const TERMINAL_PHASES = ["Succeeded", "Failed"];

/**
 * Keeps of a pod what Holdfast reads; with `addresses` also the annotations from which heldAddresses reads, which
 * are big. Throws MalformedObjectError.
 */
export function projectPod(object: unknown, options: { readonly addresses?: boolean } = {}): PodView {
  const metadata = readMetadata(object, "Pod");
  const spec = objectAt(object, "spec", "Pod");
  const { phase } = objectAt(object, "status", "Pod");
  const annotations = readTexts(object, "annotations");
  const kept = [
    ...SELECTION_ANNOTATIONS,
    ...(options.addresses ? [NETWORK_STATUS_ANNOTATION, POD_NETWORKS_ANNOTATION] : []),
  ];
  const vmis = readOwners(object, "Pod").filter(({ kind }) => kind === "VirtualMachineInstance");
  const vmi = vmis.find(({ controller }) => controller) ?? vmis[0];
  return {
    ...metadata,
    node: typeof spec.nodeName === "string" && spec.nodeName !== "" ? spec.nodeName : null,
    phase: typeof phase === "string" ? phase : "",
    terminal: TERMINAL_PHASES.includes(String(phase)),
    hostNetwork: spec.hostNetwork === true,
    staticUid: annotations.get(STATIC_UID_ANNOTATION) || null,
    vmi: vmi ? { name: vmi.name, uid: vmi.uid } : null,
    annotations: Object.fromEntries(
      kept.flatMap((key) => {
        const text = annotations.get(key);
        return text === undefined ? [] : [[key, text]];
      }),
    ),
  };
}

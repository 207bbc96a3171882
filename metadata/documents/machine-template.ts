import { Buffer } from "node:buffer";
import { machineLinks } from "./machine/links.ts";
import { machineMetaData } from "./machine/meta-data.ts";
import { machineNetworks, machineServices } from "./machine/networks.ts";
import { type Host, isMachine, type MachineObjects, type NamedObject } from "./machine/objects.ts";
import { networksIn, type PoolReference, type PoolResult, poolsOfTemplate, routesIn } from "./machine/pools.ts";
import { readTemplate } from "./machine/read-template.ts";
import { type MachineTemplateSpec, type TemplateNetworkData, TemplateProblem } from "./machine/template.ts";
import { TextTooLong, type YamlValue, yamlMapping } from "./machine/yaml-text.ts";

/** `links`, `networks` and `services` as network_data.json has them, ready for JSON. */
export type NetworkDocument = Readonly<Record<string, YamlValue>>;

export type { Host, MachineObjects, MachineTemplateSpec, NamedObject, PoolReference, PoolResult };

export interface TemplateInputs extends MachineObjects {
  /** Of the data object, from 0. */
  readonly index: number;
  /** Namespace of the data object. */
  readonly namespace: string;
  /** What was allocated, by pool name. */
  readonly pools: ReadonlyMap<string, PoolResult>;
}

interface Failed {
  readonly kind: "failed";
  /** Names the part of the template, the value, and where it helps the remedy. */
  readonly problem: string;
  /** The host's inspection may still bring what is missing; null: template, objects or pools have to change. */
  readonly awaits: "inspection" | null;
}

/** null: the template has no such part. An empty part renders what is always there. */
export type Rendered =
  | { readonly kind: "rendered"; readonly metaData: string | null; readonly networkData: string | null }
  | Failed;

export type RenderedValues =
  | {
      readonly kind: "values";
      readonly metaData: Readonly<Record<string, string>> | null;
      readonly networkData: NetworkDocument | null;
    }
  | Failed;

/** A Secret holds no more, and neither does an object in etcd. */
const DOCUMENT_BYTES_MAX = 1 << 20;

/** `spec` of a Metal3DataTemplate; unknown fields are left out. `problem`: nothing may be rendered then. */
export function readMachineTemplate(spec: unknown): MachineTemplateSpec | { readonly problem: string } {
  try {
    return readTemplate(spec);
  } catch (error) {
    return { problem: failed(error).problem };
  }
}

/** YAML 1.1 in which every value of `metaData` reads back as a string. The same inputs give the same bytes. */
export function renderMachineTemplate(spec: MachineTemplateSpec, inputs: TemplateInputs): Rendered {
  const values = renderMachineValues(spec, inputs);
  if (values.kind === "failed") return values;
  try {
    const metaData = documentText("metaData", values.metaData);
    return { kind: "rendered", metaData, networkData: documentText("networkData", values.networkData) };
  } catch (error) {
    return failed(error);
  }
}

export function renderMachineValues(spec: MachineTemplateSpec, inputs: TemplateInputs): RenderedValues {
  try {
    const metaData = spec.metaData == null ? null : machineMetaData(spec.metaData, inputs);
    const networkData = spec.networkData == null ? null : machineNetworkData(spec.networkData, inputs);
    return { kind: "values", metaData, networkData };
  } catch (error) {
    return failed(error);
  }
}

/** Each pool of a template once, in its order. Without objects, as at a release, those of annotations are left out. */
export function poolReferencesOf(
  spec: MachineTemplateSpec,
  objects: MachineObjects,
): { readonly kind: "pools"; readonly pools: readonly PoolReference[] } | Failed {
  try {
    return { kind: "pools", pools: poolsOfTemplate(spec, objects) };
  } catch (error) {
    return failed(error);
  }
}

/** Does the template name `object: machine` anywhere? Without a Machine it can then not be rendered. */
export function needsMachine({ metaData, networkData }: MachineTemplateSpec): boolean {
  const { objectNames = [], fromLabels = [], fromAnnotations = [] } = metaData ?? {};
  const { ethernets = [], bonds = [], vlans = [] } = networkData?.links ?? {};
  const references = [
    ...objectNames,
    ...fromLabels,
    ...fromAnnotations,
    ...[...ethernets, ...bonds, ...vlans].map(({ macAddress }) => macAddress?.fromAnnotation),
    ...networksIn(networkData?.networks).map(({ fromPoolAnnotation }) => fromPoolAnnotation),
    ...routesIn(networkData?.networks).map(({ gateway }) => gateway?.fromPoolAnnotation),
  ];
  return references.some((reference) => isMachine(reference?.object));
}

function machineNetworkData(template: TemplateNetworkData, inputs: TemplateInputs): NetworkDocument {
  return {
    links: machineLinks(template.links, inputs),
    networks: machineNetworks(template.networks, inputs),
    services: machineServices(template.services, inputs.pools),
  } as unknown as NetworkDocument;
}

function documentText(name: string, values: Readonly<Record<string, YamlValue>> | null): string | null {
  if (values === null) return null;
  try {
    const text = yamlMapping(values, DOCUMENT_BYTES_MAX);
    if (Buffer.byteLength(text) <= DOCUMENT_BYTES_MAX) return text;
  } catch (error) {
    // Every character has a byte or more.
    if (!(error instanceof TextTooLong)) throw error;
  }
  throw new TemplateProblem(
    `${name} has more than the ${DOCUMENT_BYTES_MAX} bytes that a Secret holds: shorten the template, or the labels and annotations it names`,
  );
}

function failed(error: unknown): Failed {
  if (!(error instanceof TemplateProblem)) throw error;
  return { kind: "failed", problem: error.message, awaits: error.awaits };
}

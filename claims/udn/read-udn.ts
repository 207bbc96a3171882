import { isObject } from "../../ipam/definition/definition-keys.ts";
import { readLayer2 } from "./layer2.ts";
import { readLayer3 } from "./layer3.ts";
import { readLocalnet } from "./localnet.ts";
import type { UdnFacts, UdnTopology } from "./udn-facts.ts";
import { UdnFields, type UdnProblem } from "./udn-fields.ts";
import type { UdnView } from "./udn-object.ts";

export type UdnReading =
  | { readonly kind: "read"; readonly facts: UdnFacts }
  | { readonly kind: "wrong"; readonly problems: readonly UdnProblem[] };

const SECTIONS = { Layer2: "layer2", Layer3: "layer3", Localnet: "localnet" } as const;

/** Validates one object by OVN-Kubernetes' rules for single objects; rules about changes are left to the API server. */
export function readUdn(view: UdnView): UdnReading {
  const problems: UdnProblem[] = [];
  const cluster = view.kind === "ClusterUserDefinedNetwork";
  if (cluster) requireParts(view, problems);
  const fields = new UdnFields(view.networkSpec, cluster ? "spec.network" : "spec", problems);
  const topologies: readonly UdnTopology[] = cluster
    ? ["Layer2", "Layer3", "Localnet"]
    : ["Layer2", "Layer3"];
  const topology = fields.oneOf("topology", topologies, null);
  for (const one of topologies) {
    const section = SECTIONS[one];
    if (fields.has(section) !== (one === topology))
      fields.wrong(section, `spec.${section} is required when topology is ${one} and forbidden otherwise`);
  }
  if (topology === null || !fields.has(SECTIONS[topology])) return { kind: "wrong", problems };
  const read = { Layer2: readLayer2, Layer3: readLayer3, Localnet: readLocalnet }[topology];
  const facts = read(fields.section(SECTIONS[topology]));
  return problems.length > 0 || facts === null ? { kind: "wrong", problems } : { kind: "read", facts };
}

function requireParts({ spec }: UdnView, problems: UdnProblem[]): void {
  for (const key of ["namespaceSelector", "network"])
    if (!isObject(spec[key])) problems.push({ path: `spec.${key}`, message: `${key} is required` });
}

/** For messages: `spec.layer2.subnets[0]: CIDR is invalid; …` */
export function describeProblems(problems: readonly UdnProblem[]): string {
  return problems.map(({ path, message }) => `${path}: ${message}`).join("; ");
}

import { type AnnotationReference, TemplateProblem } from "./template.ts";

export interface NamedObject {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** A BareMetalHost, or the VM in its place. */
export interface Host extends NamedObject {
  /** "" when the host has none. */
  readonly bootMACAddress: string;
  /** Interfaces as the inspection found them, of which several may share a name; null: not inspected. */
  readonly nics: readonly { readonly name: string; readonly mac: string }[] | null;
}

/** What a template can name by `object`; null: not at hand. */
export interface MachineObjects {
  readonly machine: NamedObject | null;
  readonly metal3Machine: NamedObject | null;
  readonly host: Host | null;
}

/** The object that a template names in any case of letters. Throws TemplateProblem for an unknown or absent one. */
export function objectNamed(name: string | undefined, objects: MachineObjects): NamedObject {
  const kind = (name ?? "").toLowerCase();
  if (kind !== "machine" && kind !== "metal3machine" && kind !== "baremetalhost") {
    throw new TemplateProblem(
      `unknown object type ${JSON.stringify(name ?? "")}: expected machine, metal3machine or baremetalhost`,
    );
  }
  const { machine, metal3Machine, host } = objects;
  const object = { machine, metal3machine: metal3Machine, baremetalhost: host }[kind];
  if (object === null) throw new TemplateProblem(`${kind} is nil but referenced`);
  return object;
}

export function isMachine(name: string | undefined): boolean {
  return name?.toLowerCase() === "machine";
}

/** Own properties only: no object has a label that is called `constructor` of itself. */
export function valueIn(values: Readonly<Record<string, string>>, key: string | undefined): string {
  return key !== undefined && Object.hasOwn(values, key) ? (values[key] ?? "") : "";
}

/** Value of an annotation that names a pool. Throws TemplateProblem where it is absent or empty. */
export function poolOfAnnotation(reference: AnnotationReference, objects: MachineObjects): string {
  const pool = valueIn(objectNamed(reference.object, objects).annotations, reference.annotation);
  if (pool === "") {
    throw new TemplateProblem(`annotation ${reference.annotation ?? ""} not found or empty on ${reference.object}`);
  }
  return pool;
}

/** MAC of the host's first interface of this name, as the inspection wrote it. Throws TemplateProblem. */
export function macOfInterface(name: string, { host }: MachineObjects): string {
  if (host === null) throw new TemplateProblem("baremetalhost is nil but referenced");
  const { namespace, name: hostName, nics } = host;
  if (nics === null || nics.length === 0) {
    throw new TemplateProblem(`NICs list not populated: host ${namespace}/${hostName} has no nics`, "inspection");
  }
  const nic = nics.find((one) => one.name === name);
  if (nic === undefined) {
    const names = [...new Set(nics.map((one) => one.name).filter(Boolean))].join(", ");
    throw new TemplateProblem(`NIC name not found ${name}: host ${namespace}/${hostName} has ${names}`);
  }
  return nic.mac ?? "";
}

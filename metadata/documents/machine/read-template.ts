import type { ComputedRange, MachineTemplateSpec, TemplateHostInterface, TemplateStaticNetwork } from "./template.ts";
import { type Shape, TEMPLATE_FIELDS } from "./template-fields.ts";
import { TemplateProblem } from "./template-problem.ts";

/** Longest value that a message repeats. */
const SHOWN_CHARS_MAX = 80;

/**
 * Reads `spec` of a template as it came from an API server, which may know other rules for it. Fields that are unknown
 * here are left out, null counts as absent. Throws TemplateProblem that names the field: another type than expected, or
 * what Metal3's own admission refuses.
 */
export function readTemplate(spec: unknown): MachineTemplateSpec {
  const template = readShape(spec ?? {}, TEMPLATE_FIELDS, "spec") as MachineTemplateSpec;
  for (const [at, item] of (template.metaData?.fromHostInterfaces ?? []).entries()) {
    checkHostInterface(item, `spec.metaData.fromHostInterfaces[${at}]`);
  }
  for (const [at, range] of (template.metaData?.ipAddresses ?? []).entries()) {
    checkRange(range, `spec.metaData.ipAddresses[${at}]`);
  }
  for (const family of ["ipv4", "ipv6"] as const) {
    for (const [at, network] of (template.networkData?.networks?.[family] ?? []).entries()) {
      checkNetwork(network, `spec.networkData.networks.${family}[${at}]`);
    }
  }
  return template;
}

function readShape(value: unknown, shape: Shape, path: string): unknown {
  if (typeof shape === "function") {
    const problem = shape(value);
    if (problem === null) return value;
    throw new TemplateProblem(`${path}: ${problem}, not ${shown(value)}`);
  }
  if (isList(shape)) {
    if (!Array.isArray(value)) throw new TemplateProblem(`${path}: expected a list, not ${shown(value)}`);
    return value.map((item, at) => readShape(item, shape[0], `${path}[${at}]`));
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TemplateProblem(`${path}: expected an object, not ${shown(value)}`);
  }
  const fields = Object.keys(shape).flatMap((field) => {
    const given = Object.hasOwn(value, field) ? (value as Record<string, unknown>)[field] : undefined;
    if (given === undefined || given === null) return [];
    return [[field, readShape(given, shape[field] as Shape, `${path}.${field}`)]];
  });
  return Object.fromEntries(fields);
}

function isList(shape: Shape): shape is readonly [Shape] {
  return Array.isArray(shape);
}

function checkHostInterface({ interface: name, fromBootMAC }: TemplateHostInterface, path: string): void {
  if (fromBootMAC && name) {
    throw new TemplateProblem(`${path}: interface must be empty when fromBootMAC is true`);
  }
  if (!fromBootMAC && !name) {
    throw new TemplateProblem(`${path}: interface must be specified when fromBootMAC is false`);
  }
}

function checkNetwork(network: TemplateStaticNetwork, path: string): void {
  const { ipAddress, netmask, fromPoolRef, fromPoolAnnotation, ipAddressFromIPPool } = network;
  const hasPool = Boolean(
    fromPoolRef?.name || ipAddressFromIPPool || fromPoolAnnotation?.object || fromPoolAnnotation?.annotation,
  );
  if (ipAddress === undefined) {
    if (hasPool) return;
    throw new TemplateProblem(
      `${path}: fromPoolRef needs to contain a reference to an IPPool, where neither ipAddressFromIPPool, ` +
        "fromPoolAnnotation nor ipAddress stands",
    );
  }
  if (hasPool) throw new TemplateProblem(`${path}: ipAddress and a pool are both named; omit one`);
  checkRange(ipAddress, `${path}.ipAddress`);
  if (netmask === undefined && ipAddress.subnet === undefined) {
    throw new TemplateProblem(`${path}: ipAddress needs netmask, a prefix length, or a subnet`);
  }
}

function checkRange({ start, subnet }: ComputedRange, path: string): void {
  if (start === undefined && subnet === undefined) {
    throw new TemplateProblem(`${path}: a computed address needs start or subnet`);
  }
}

function shown(value: unknown): string {
  const text = jsonOf(value);
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return "a value of that many levels";
  }
}

import { ANNOTATIONS, isTemplateName } from "./content-annotations.ts";
import { objectAt, readMetadata, readTexts } from "./object-metadata.ts";
import { vmOwnerOf } from "./tenant-objects.ts";

export const KUBEVIRT_API_VERSION = "kubevirt.io/v1";

export type TemplatedVmView = Readonly<NonNullable<ReturnType<typeof projectTemplatedVm>>>;

/** null: it names no template. Of an instance its metadata is enough. Throws MalformedObjectError. */
export function projectTemplatedVm(object: unknown) {
  const kind = "VirtualMachine";
  const metadata = readMetadata(object, kind);
  const { template: instance } = objectAt(object, "spec", kind);
  /** The annotation as it is; null: none. */
  const template = templateIn(object);
  /** Of a VirtualMachine, which its next instance gets. */
  const nextTemplate = instance === undefined ? null : templateIn(instance);
  if (template === null && nextTemplate === null) return null;
  return { ...metadata, template, nextTemplate, vm: vmOwnerOf(object, kind) };
}

/** By its own annotation, else its instance's, else its next one's. null, and empty: none. `invalid`: it is no name. */
export function templateMeant(
  vm: TemplatedVmView | undefined,
  vmi: TemplatedVmView | undefined,
): { readonly name: string | null } | "invalid" {
  const text = (vm?.template ?? vmi?.template ?? vm?.nextTemplate ?? "").trim();
  if (text === "") return { name: null };
  return isTemplateName(text) ? { name: text } : "invalid";
}

function templateIn(object: unknown): string | null {
  return readTexts(object, "annotations").get(ANNOTATIONS.dataTemplate) ?? null;
}

import { type FieldProblem, forbiddenField, invalidValue, required } from "./failure.ts";
import {
  DNS_LABEL,
  LABEL_CHARS_MAX,
  LABEL_RULE,
  LABEL_VALUE,
  NAME_CHARS_MAX,
  QUALIFIED,
  QUALIFIED_RULE,
  SUBDOMAIN,
  SUBDOMAIN_RULE,
  VALUE_RULE,
} from "./names.ts";
import { isEqual, type KubeObject } from "./objects.ts";
import { type Clock, type HasClock, isoTime, randomUuid } from "./port.ts";
import type { Resource } from "./resources.ts";

const ANNOTATIONS_BYTES_MAX = 256 * 1024;
/** Of the random end of a generated name; without vowels, so that no word comes out. */
const SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_CHARS = 5;
const GENERATED_CHARS_MAX = 58;

/** Gives a new object what only the server knows. */
export function beginLife(object: KubeObject, resource: Resource, { clock }: HasClock): void {
  const { metadata } = object;
  for (const field of ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]) delete metadata[field];
  metadata.uid = randomUuid(clock);
  metadata.creationTimestamp = isoTime(clock.wallMs());
  if (resource.counts === "generation") metadata.generation = 1;
  else delete metadata.generation;
  if (metadata.generateName && !metadata.name)
    metadata.name = `${metadata.generateName.slice(0, GENERATED_CHARS_MAX)}${suffix(clock)}`;
}

function suffix(clock: Clock): string {
  const letter = () => SUFFIX_ALPHABET[Math.floor(clock.random() * SUFFIX_ALPHABET.length)];
  return Array.from({ length: SUFFIX_CHARS }, letter).join("");
}

/** Leaves out what is empty where the server knows the type: of metadata always, of the rest in its own kinds. */
export function tidy(object: KubeObject, { custom }: Resource): void {
  for (const part of custom ? [object.metadata] : [object.metadata, object])
    for (const [key, value] of Object.entries(part))
      if (value === null || (typeof value === "object" && Object.keys(value).length === 0 && key !== "metadata"))
        delete part[key];
}

/** What is wrong with an object's metadata by itself. */
export function problemsOfMetadata(metadata: KubeObject, resource: Resource): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const { name = "", labels = {}, annotations = {}, ownerReferences = [], finalizers = [] } = metadata;
  if (name === "") problems.push(required("metadata.name", "name or generateName is required"));
  else {
    const isLabel = resource.plural === "namespaces" || resource.plural === "services";
    const fits = isLabel ? DNS_LABEL.test(name) && name.length <= LABEL_CHARS_MAX : SUBDOMAIN.test(name);
    if (!fits || name.length > NAME_CHARS_MAX)
      problems.push(invalidValue("metadata.name", name, isLabel ? LABEL_RULE : SUBDOMAIN_RULE));
  }
  for (const [key, value] of Object.entries<string>(labels)) {
    if (!QUALIFIED.test(key)) problems.push(invalidValue("metadata.labels", key, QUALIFIED_RULE));
    if (value.length > LABEL_CHARS_MAX)
      problems.push(invalidValue("metadata.labels", value, "must be no more than 63 characters"));
    if (!LABEL_VALUE.test(value)) problems.push(invalidValue("metadata.labels", value, VALUE_RULE));
  }
  let bytes = 0;
  for (const [key, value] of Object.entries<string>(annotations)) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
    if (!QUALIFIED.test(key.toLowerCase())) problems.push(invalidValue("metadata.annotations", key, QUALIFIED_RULE));
  }
  if (bytes > ANNOTATIONS_BYTES_MAX)
    problems.push({
      reason: "FieldValueTooLong",
      field: "metadata.annotations",
      message: `Too long: must have at most ${ANNOTATIONS_BYTES_MAX} bytes`,
    });
  for (const [index, reference] of ownerReferences.entries())
    for (const key of ["apiVersion", "kind", "name", "uid"])
      if (!reference[key])
        problems.push(
          invalidValue(
            `metadata.ownerReferences[${index}].${key}`,
            reference[key] ?? "",
            `${OWNER_WORDS[key]} must not be empty`,
          ),
        );
  for (const finalizer of finalizers)
    if (!QUALIFIED.test(finalizer)) problems.push(invalidValue("metadata.finalizers", finalizer, QUALIFIED_RULE));
  return problems;
}

const OWNER_WORDS: Readonly<Record<string, string>> = {
  apiVersion: "version",
  kind: "kind",
  name: "name",
  uid: "uid",
};

/** Carries over to the next state of an object what nobody may change, and says what somebody tried to. */
export function carryOver(next: KubeObject, old: KubeObject): FieldProblem[] {
  const to = next.metadata;
  const from = old.metadata;
  to.uid ??= from.uid;
  to.creationTimestamp = from.creationTimestamp;
  for (const field of ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"]) {
    if (from[field] === undefined) delete to[field];
    else to[field] = from[field];
  }
  const problems: FieldProblem[] = [];
  for (const field of ["name", "namespace", "uid"])
    if (!isEqual(to[field], from[field]))
      problems.push(invalidValue(`metadata.${field}`, to[field], "field is immutable"));
  const had: string[] = from.finalizers ?? [];
  const more = (to.finalizers ?? []).filter((one: string) => !had.includes(one));
  if (from.deletionTimestamp !== undefined && more.length > 0) {
    const listed = more.map((one: string) => `"${one}"`).join(", ");
    problems.push(
      forbiddenField(
        "metadata.finalizers",
        `no new finalizers can be added if the object is being deleted, found new finalizers []string{${listed}}`,
      ),
    );
  }
  return problems;
}

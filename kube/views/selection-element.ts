import { ANNOTATION_CHARS_MAX, lengthProblem } from "../../ipam/definition/bounded-json.ts";
import { invalid, isGiven, isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";
import { parseAsGo } from "../../ipam/definition/go-json.ts";
import { isInterfaceName } from "../../ipam/definition/interface-name.ts";
import { SELECTION_KEYS } from "../../ipam/definition/read-keys.ts";
import { isObjectName, type ObjectName, readClaimReference } from "./claim-reference.ts";

/** One network selection element: what a pod requests for one interface. */
export interface SelectionElement {
  /** null: the annotation names only a claim, so the network is that of the request. */
  readonly nad: ObjectName | null;
  /** null: not named; then it is `net<position>`, or the primary one. */
  readonly interface: string | null;
  /** From 1, in the annotation of the additional interfaces; 0 for the primary one. */
  readonly position: number;
  /** Bare name of an IPAMClaim in the pod's namespace. */
  readonly claim: string | null;
  /** As written; an element for another plugin may have anything here. */
  readonly ips: readonly string[];
  readonly mac: string | null;
}

/** Position of an element, and its defaults. */
export interface Place {
  /** For messages. */
  readonly key: string;
  readonly position: number;
  /** The namespace of NADs that are named without one. */
  readonly nadNamespace: string;
  readonly podNamespace: string;
}

const ELEMENTS_MAX = 256;
/** Addresses that one interface may request: more than any network has range sets. */
const IPS_MAX = 32;

/** An unparsed element: a piece of the text form, or a value of the list in JSON. */
export type RawElement = { readonly text: string } | { readonly json: unknown };

/** In either form; "" has none. `key` is for messages. Throws RefusalError CONFIG_INVALID, not for single elements. */
export function splitSelection(text: string, key: string): RawElement[] {
  const tooLong = lengthProblem(text, ANNOTATION_CHARS_MAX);
  if (tooLong !== null) invalid({ key, value: text }, tooLong);
  if (text.trim() === "") return [];
  const list = /[[{"]/.test(text) ? parseList(text, key) : text.split(",").map((one) => ({ text: one }));
  if (list.length > ELEMENTS_MAX) {
    invalid({ key, value: `${list.length} elements` }, `expected at most ${ELEMENTS_MAX}`);
  }
  return list;
}

function parseList(text: string, key: string): RawElement[] {
  let list: unknown;
  try {
    list = parseAsGo(text, ANNOTATION_CHARS_MAX, SELECTION_KEYS);
  } catch (error) {
    invalid({ key, value: text }, `expected a list in JSON: ${(error as Error).message}`);
  }
  if (!Array.isArray(list)) invalid({ key, value: text }, "expected a list of objects in JSON");
  return list.map((json) => ({ json }));
}

/** Reads one element. Throws RefusalError: CONFIG_INVALID that names the place, or CLAIM_OTHER_NAMESPACE. */
export function readElement(raw: RawElement, place: Place): SelectionElement {
  return "text" in raw ? readTextElement(raw.text, place) : readJsonElement(raw.json, place);
}

/** The claim that an element refers to, unparsed. */
export function referenceOf(raw: RawElement): unknown {
  return "json" in raw && isObject(raw.json) ? given(raw.json, "ipam-claim-reference") : undefined;
}

/** `[namespace/]name[@interface]` */
function readTextElement(text: string, place: Place): SelectionElement {
  const [, namespace, name = "", interfaceName] = /^(?:([^/@]*)\/)?([^/@]*)(?:@([^/@]*))?$/.exec(text.trim()) ?? [];
  const nad = { namespace: namespace ?? place.nadNamespace, name };
  if (!isObjectName(nad.namespace) || !isObjectName(name) || interfaceName === "") {
    invalid({ key: place.key, value: text }, "expected [namespace/]name[@interface]");
  }
  const { position } = place;
  return { nad, interface: readInterface(interfaceName, place), position, claim: null, ips: [], mac: null };
}

function readJsonElement(element: unknown, place: Place): SelectionElement {
  if (!isObject(element)) invalid({ key: place.key, value: element }, "expected an object");
  const pick = (name: SelectionKey) => given(element, name);
  const nad = {
    namespace: readName(pick("namespace") ?? place.nadNamespace, `${place.key}, namespace`),
    name: readName(pick("name"), `${place.key}, name`),
  };
  const reference = pick("ipam-claim-reference");
  const claim =
    reference === undefined
      ? null
      : readClaimReference(reference, `${place.key}, ipam-claim-reference`, place.podNamespace).name;
  const mac = pick("mac") ?? null;
  if (mac !== null && typeof mac !== "string") invalid({ key: `${place.key}, mac`, value: mac }, "expected a string");
  const { position } = place;
  const interfaceName = readInterface(pick("interface"), place);
  return { nad, interface: interfaceName, position, claim, ips: readIps(pick("ips"), place), mac };
}

type SelectionKey = keyof (typeof SELECTION_KEYS)[0];

function given(element: JsonObject, name: SelectionKey): unknown {
  return isGiven(element[name]) ? element[name] : undefined;
}

function readName(value: unknown, key: string): string {
  if (typeof value !== "string" || !isObjectName(value)) {
    invalid({ key, value }, "expected lower-case letters, digits, '-' and '.', namespace and name apart");
  }
  return value;
}

function readIps(value: unknown, place: Place): readonly string[] {
  if (value === undefined) return [];
  const key = `${place.key}, ips`;
  if (!Array.isArray(value) || value.length > IPS_MAX || !value.every((ip) => typeof ip === "string")) {
    invalid({ key, value }, `expected a list of at most ${IPS_MAX} addresses, as strings`);
  }
  return value;
}

function readInterface(value: unknown, place: Place): string | null {
  if (value === undefined) return null;
  if (typeof value !== "string" || !isInterfaceName(value)) {
    invalid({ key: `${place.key}, interface`, value }, "expected the name of an interface, 1 to 15 characters");
  }
  return value;
}

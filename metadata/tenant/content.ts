import { Buffer } from "node:buffer";
import { isIPv4 } from "node:net";
import {
  ANNOTATIONS,
  annotationOf,
  type ContentPart,
  type ContentReference,
  isForPasswords,
  isHostname,
  isTemplateName,
  type ObjectKind,
  parseContentReference,
  SERVE_LABEL,
} from "../../kube/views/content-annotations.ts";
import type { TenantObject } from "../../kube/views/tenant-objects.ts";
import type { PublicKey } from "../documents/instance.ts";

/** What a tenant configures for its VM, by annotations and the objects that they name. */
export interface TenantContent {
  readonly userData: Buffer | null;
  readonly vendorData: string | null;
  readonly publicKeys: readonly PublicKey[];
  readonly meta: Readonly<Record<string, string>>;
  readonly hostname: string | null;
  /** Where the guest is reached from outside; null: not said. */
  readonly publicIPv4: string | null;
  readonly publicHostname: string | null;
  /** Name of a Metal3DataTemplate; null: none. */
  readonly template: string | null;
  /** Parts that are empty although they were requested. */
  readonly problems: readonly ContentProblem[];
  readonly forbidden: readonly ContentReference[];
}

interface ContentProblem {
  /** Word in CamelCase, one for each part: the reason of an event. */
  readonly reason: string;
  readonly message: string;
}

/** The objects of the VM's namespace that `referencesIn` names, as far as they may be served. */
export interface TenantObjects {
  /** "forbidden": it may not be read. */
  find(kind: ObjectKind, name: string): Pick<TenantObject, "data"> | "forbidden" | undefined;
  /** Why one that is not found may be missing, and what to do. Default: in a cluster. */
  whyMissing?(reference: ContentReference): string;
}

/** The default keys. KubeVirt's own Secrets use the first of each. */
const USER_DATA_KEYS = ["userdata", "userData", "user-data"];
const VENDOR_DATA_KEYS = ["vendordata", "vendorData", "vendor-data"];

/** Collects the content. `annotations`: the first that has a name counts. */
export function readContent(
  annotations: readonly ReadonlyMap<string, string>[],
  objects: TenantObjects,
): TenantContent {
  const reader = new ContentReader(annotations, objects);
  const userData = reader.value("userData", USER_DATA_KEYS);
  const vendorData = reader.text("vendorData", reader.value("vendorData", VENDOR_DATA_KEYS));
  const publicKeys = reader.publicKeys();
  const meta = Object.fromEntries(reader.entries("meta"));
  const hostname = reader.hostname("hostname");
  const publicHostname = reader.hostname("publicHostname");
  const publicIPv4 = reader.publicIPv4();
  const template = reader.template();
  const { problems, forbidden } = reader;
  const names = { hostname, publicIPv4, publicHostname };
  return { userData, vendorData, publicKeys, meta, ...names, template, problems, forbidden };
}

class ContentReader {
  readonly problems: ContentProblem[] = [];
  readonly forbidden: ContentReference[] = [];
  readonly #annotations: readonly ReadonlyMap<string, string>[];
  readonly #objects: TenantObjects;

  constructor(annotations: readonly ReadonlyMap<string, string>[], objects: TenantObjects) {
    this.#annotations = annotations;
    this.#objects = objects;
  }

  hostname(part: "hostname" | "publicHostname"): string | null {
    const text = this.#annotation(part);
    if (text === null || isHostname(text)) return text?.replace(/\.$/, "") ?? null;
    return this.#problem(part, `${quoted(text)} is no host name; use letters, digits, hyphens and dots`);
  }

  publicIPv4(): string | null {
    const text = this.#annotation("publicIPv4");
    if (text === null || isIPv4(text)) return text;
    return this.#problem("publicIPv4", `${quoted(text)} is no IPv4 address; write one such as 203.0.113.7`);
  }

  template(): string | null {
    const text = this.#annotation("dataTemplate");
    if (text === null || isTemplateName(text)) return text;
    const wanted = "write the name of a Metal3DataTemplate of the VM's own namespace";
    return this.#problem("dataTemplate", `${quoted(text)} is no name of an object; ${wanted}`);
  }

  /** The bytes under the key that the reference names, else under the first of the usual ones. */
  value(part: ContentPart, usual: readonly string[]): Buffer | null {
    const found = this.#object(part);
    if (found === null) return null;
    const { reference, object } = found;
    const keys = reference.key === null ? usual : [reference.key];
    const key = keys.find((one) => object.data.has(one));
    if (key !== undefined) return object.data.get(key) as Buffer;
    const remedy = reference.key === null ? `; name yours: ${formatReference(reference)}/<key>` : "";
    return this.#problem(part, `${named(reference)} has no key ${keys.join(" or ")}${remedy}`);
  }

  publicKeys(): readonly PublicKey[] {
    const found = this.#values("publicKeys");
    if (found === null) return [];
    const { reference, values } = found;
    const texts = values.map(([key, bytes]): [string, string | null] => [key, textOf(bytes)]);
    const { keys, problem } = readPublicKeys(texts);
    if (problem === null) return keys;
    const wanted = "expected a line as in a .pub file of ssh-keygen, or several as in authorized_keys";
    const remedy = reference.key === null ? `; name the key that has them: ${formatReference(reference)}/<key>` : "";
    const what = `${named(reference)}: ${problem}; ${wanted}${remedy}`;
    this.#problem("publicKeys", what, "The guest gets the public keys alone");
    return keys;
  }

  /** Values that are text, by key, sorted; only one if the reference names a key. */
  entries(part: ContentPart): [string, string][] {
    return (this.#values(part)?.values ?? []).flatMap(([key, bytes]): [string, string][] => {
      const text = this.text(part, bytes, ` (key ${key})`);
      return text === null ? [] : [[key, text]];
    });
  }

  text(part: ContentPart, bytes: Buffer | null, at = ""): string | null {
    if (bytes === null) return null;
    const text = textOf(bytes);
    if (text !== null) return text;
    return this.#problem(part, `what it names${at} is no UTF-8 text, and only text can be given to a guest here`);
  }

  /** The values of an object by key, sorted; only one if the reference names a key. */
  #values(part: ContentPart): { reference: ContentReference; values: [string, Buffer][] } | null {
    const found = this.#object(part);
    if (found === null) return null;
    const { reference, object } = found;
    if (reference.key !== null && !object.data.has(reference.key))
      return this.#problem(part, `${named(reference)} has no key ${reference.key}`);
    const values = [...object.data]
      .filter(([key]) => reference.key === null || key === reference.key)
      .sort(([a], [b]) => (a < b ? -1 : 1));
    return { reference, values };
  }

  #object(part: ContentPart): { reference: ContentReference; object: Pick<TenantObject, "data"> } | null {
    const text = this.#annotation(part);
    if (text === null) return null;
    const reference = parseContentReference(text);
    if (reference === null) {
      const wanted = "secret/<name>[/<key>] or configmap/<name>[/<key>], of the VM's own namespace";
      return this.#problem(part, `${quoted(text)} is not understood; write ${wanted}`);
    }
    // Anybody who may edit one VM must not read what the guests of others sent.
    if (isForPasswords(reference))
      return this.#problem(part, `${named(reference)} is for passwords alone; name another object`);
    const object = this.#objects.find(reference.kind, reference.name);
    if (object === "forbidden") {
      this.forbidden.push(reference);
      return null;
    }
    if (object !== undefined) return { reference, object };
    const why = (this.#objects.whyMissing ?? whyMissingInCluster)(reference);
    return this.#problem(part, `${named(reference)} ${why}`);
  }

  #annotation(part: ContentPart): string | null {
    return annotationOf(this.#annotations, part);
  }

  #problem(part: ContentPart, what: string, effect = "The guest gets none"): null {
    const reason = `Metadata${part.slice(0, 1).toUpperCase()}${part.slice(1)}Unavailable`;
    this.problems.push({ reason, message: `annotation ${ANNOTATIONS[part]}: ${what}. ${effect}.` });
    return null;
  }
}

/** null: it is no UTF-8. */
function textOf(bytes: Buffer): string | null {
  const text = bytes.toString("utf8");
  return !text.includes("\ufffd") || Buffer.from(text, "utf8").equals(bytes) ? text : null;
}

function whyMissingInCluster(reference: ContentReference): string {
  const remedy = `kubectl label ${formatReference({ ...reference, key: null })} ${SERVE_LABEL}=true`;
  return `is absent or has no label ${SERVE_LABEL}: "true"; ${remedy}`;
}

function named({ kind, name }: ContentReference): string {
  return `${kind} ${name}`;
}

function formatReference({ kind, name, key }: ContentReference): string {
  return `${kind.toLowerCase()}/${name}${key === null ? "" : `/${key}`}`;
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}

interface ReadKeys {
  readonly keys: readonly PublicKey[];
  /** The first value that is none, and why, without any of its text; null: all are. */
  readonly problem: string | null;
}

/** In every form of a private key: `BEGIN OPENSSH PRIVATE KEY`, `BEGIN ENCRYPTED PRIVATE KEY`, … */
const PRIVATE_KEY = "PRIVATE KEY";

/**
 * Each value is a public key, or lines as in `authorized_keys`. Other lines are left out, and all lines of a value with
 * a private key: Secrets often have both halves. A guest gets one key per name, so each has its own.
 */
function readPublicKeys(values: readonly [name: string, text: string | null][]): ReadKeys {
  const taken = new Set(values.map(([name]) => name));
  const keys: PublicKey[] = [];
  let problem: string | null = null;
  for (const [name, text] of values) {
    const { lines, wrong } = readValue(text);
    if (wrong !== null) problem ??= `key ${name} ${wrong}`;
    let next = 2;
    for (const [index, data] of lines.entries()) {
      while (index > 0 && taken.has(`${name}-${next}`)) next += 1;
      const unique = index === 0 ? name : `${name}-${next}`;
      taken.add(unique);
      keys.push({ name: unique, data });
    }
  }
  return { keys, problem };
}

function readValue(text: string | null): {
  readonly lines: readonly string[];
  readonly wrong: string | null;
} {
  if (text === null) return { lines: [], wrong: "is no UTF-8 text" };
  if (text.includes(PRIVATE_KEY)) return { lines: [], wrong: "has a private key in it" };
  const lines: string[] = [];
  let wrong: string | null = null;
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const trimmed = line.trim();
    if (trimmed === "" || trimmed.startsWith("#")) continue;
    if (isPublicKey(trimmed)) lines.push(trimmed);
    else wrong ??= `is no public key in line ${index + 1}`;
  }
  return { lines, wrong: wrong ?? (lines.length === 0 ? "has no public key in it" : null) };
}

/** A line of `authorized_keys` as sshd reads it: options if need be, type, base64, comment. */
function isPublicKey(line: string): boolean {
  return isKey(line) || isKey(line.slice(optionsEnd(line)).trimStart());
}

/** The first field of the base64 repeats the type (RFC 4253, 6.6), and the key itself follows. */
function isKey(text: string): boolean {
  const [type = "", base64 = ""] = text.split(/[ \t]+/, 2);
  if (type === "" || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return false;
  const blob = Buffer.from(base64, "base64");
  const field = Buffer.from(type, "utf8");
  const end = 4 + field.length;
  return blob.length > end && blob.readUInt32BE(0) === field.length && blob.subarray(4, end).equals(field);
}

/** Where options end: at the first space outside of quotes. `\"` is no end of a quote. */
function optionsEnd(line: string): number {
  let isQuoted = false;
  for (let at = 0; at < line.length; at++) {
    const character = line[at];
    if (character === "\\" && line[at + 1] === '"') at += 1;
    else if (character === '"') isQuoted = !isQuoted;
    else if (!isQuoted && (character === " " || character === "\t")) return at;
  }
  return line.length;
}

import { Buffer } from "node:buffer";
import type { PublicKey } from "../documents/instance.ts";

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
export function readPublicKeys(values: readonly [name: string, text: string | null][]): ReadKeys {
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

import { Buffer } from "node:buffer";
import { existsSync, linkSync, rmSync } from "node:fs";
import { writeDurably } from "../../platform/files.ts";
import type { Clock } from "../../platform/time.ts";

/** Of HMAC-SHA256: a longer key adds nothing, a shorter one takes something away. */
const KEY_BYTES_MIN = 32;
/** A new key and an old one are what a change takes; each one more costs every wrong token an HMAC. */
const KEYS_MAX = 4;

const OTHERS_MAY_READ = 0o004;

/** Can anybody on the machine read it, by its mode? */
export function isOpen(mode: number): boolean {
  return (mode & OTHERS_MAY_READ) !== 0;
}

/**
 * The secret that is shared with a backend: the file without the line breaks at its end. Throws Error for an empty one.
 */
export function parseSecret(content: Buffer): Buffer {
  let end = content.length;
  while (end > 0 && (content[end - 1] === 0x0a || content[end - 1] === 0x0d)) end--;
  // Nova takes an empty one for real, and so would everybody else.
  if (end === 0) throw new Error("the file is empty");
  return Buffer.from(content.subarray(0, end));
}

/**
 * Keys, one a line, in hexadecimal or base64; empty lines and those that start with # do not count. The first is used,
 * the others are still believed. Throws Error that names the line, never its content.
 */
export function parseKeys(content: Buffer): readonly Buffer[] {
  const keys = content
    .toString("latin1")
    .split("\n")
    .map((line, at) => ({ text: line.trim(), at: at + 1 }))
    .filter(({ text }) => text !== "" && !text.startsWith("#"))
    .map(({ text, at }) => parseKey(text, at));
  if (keys.length === 0) throw new Error("the file has no key");
  if (keys.length > KEYS_MAX) throw new Error(`the file has ${keys.length} keys; ${KEYS_MAX} are the most`);
  return keys;
}

function parseKey(text: string, line: number): Buffer {
  const isHex = /^([0-9a-f]{2})+$/i.test(text);
  if (!isHex && !/^[\w+/-]+={0,2}$/.test(text)) throw new Error(`line ${line} is neither hexadecimal nor base64`);
  const key = Buffer.from(text, isHex ? "hex" : "base64");
  if (key.length < KEY_BYTES_MIN)
    throw new Error(`line ${line} has ${key.length} bytes; expected at least ${KEY_BYTES_MIN} random ones`);
  return key;
}

/** Makes a file with one new key unless it is there, for its owner alone. Tells whether it made one. */
export function makeKeyFile(path: string, clock: Clock): boolean {
  if (existsSync(path)) return false;
  const made = writeDurably(
    `${path}.${process.pid}`,
    Buffer.from(`${clock.randomBytes(KEY_BYTES_MIN).toString("hex")}\n`),
  );
  try {
    // Another process may make one at the same time: the first one counts for both.
    linkSync(made, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(made, { force: true });
  }
}

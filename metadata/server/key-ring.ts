import { Buffer } from "node:buffer";
import { existsSync, linkSync, rmSync } from "node:fs";
import { ensureDirectory, writeDurably } from "../../platform/files.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { WatchedFile } from "../../platform/watched-file.ts";
import type { MetadataSettings } from "./settings.ts";

const NO_SECRET = Buffer.alloc(0);

/** The server's secrets: the keys of tokens, and the one shared with a backend. Read again on change. */
export class KeyRing {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #files: WatchedFile<unknown>[] = [];
  readonly #keys: WatchedFile<readonly Buffer[]>;
  readonly #sharedSecret: WatchedFile<Buffer> | null;
  readonly #serviceSecret: WatchedFile<Buffer> | null;
  readonly #ca: WatchedFile<Buffer> | null;

  /** Throws Error that names the file and what is wrong with it, never its content. */
  constructor(settings: MetadataSettings, log: Log, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
    const { keyFile, makeKeys, state, novaUrl, secretFile, serviceSecretFile, novaCaFile } = settings;
    if (makeKeys) {
      ensureDirectory(state, "state");
      if (makeKeyFile(keyFile, clock))
        log.warn(
          { file: keyFile },
          "keys for tokens were made for this node alone: a token is not believed after a migration; give all nodes the same file with --key-file",
        );
    }
    this.#keys = this.#open("--key-file", keyFile, { isSecret: true, parse: parseKeys });
    const secret = (flag: string, file: string | undefined) =>
      file === undefined ? null : this.#open(flag, file, { isSecret: true, parse: parseSecret });
    const shared = secret("--secret-file", secretFile);
    this.#sharedSecret = shared;
    this.#serviceSecret = secret("--service-secret-file", serviceSecretFile) ?? (novaUrl === null ? shared : null);
    this.#ca =
      novaCaFile === undefined
        ? null
        : this.#open("--nova-ca-file", novaCaFile, { isSecret: false, parse: parseCertificates });
  }

  /** The newest first: it signs, the others are still believed. */
  get keys(): readonly Buffer[] {
    return this.#keys.value;
  }

  /** Without a file the empty one, as Nova takes it where `metadata_proxy_shared_secret` is not set. */
  get novaSecret(): Buffer {
    return this.#sharedSecret?.value ?? NO_SECRET;
  }

  /** Never Nova's: its signatures never expire, and a tenant whose Service gets one could use it against Nova. */
  get serviceSecret(): Buffer | null {
    return this.#serviceSecret?.value ?? null;
  }

  get ca(): Buffer | null {
    return this.#ca?.value ?? null;
  }

  stop(): void {
    for (const file of this.#files) file.stop();
  }

  #open<T>(
    flag: string,
    path: string,
    { isSecret, parse }: { isSecret: boolean; parse: (content: Buffer) => T },
  ): WatchedFile<T> {
    const read = (content: Buffer, mode: number) => {
      if (isSecret && isOpen(mode))
        this.#log.warn({ file: path }, `anybody on this machine may read the file of ${flag}; chmod o-r it`);
      return parse(content);
    };
    let file: WatchedFile<T>;
    try {
      file = new WatchedFile(this.#clock, path, read);
    } catch (error) {
      throw new Error(`${flag} ${path} cannot be used: ${(error as Error).message}`);
    }
    file.watch({
      changed: () => this.#log.info({ file: path }, `the file of ${flag} has changed and is used from now on`),
      unusable: (problem) =>
        this.#log.error(
          { file: path, problem },
          `the file of ${flag} has changed and cannot be used; what it said before still counts`,
        ),
    });
    this.#files.push(file);
    return file;
  }
}

function parseCertificates(content: Buffer): Buffer {
  if (!content.includes("-----BEGIN CERTIFICATE-----")) throw new Error("the file has no certificate in PEM");
  return content;
}

/** Of HMAC-SHA256: a longer key adds nothing, a shorter one takes something away. */
const KEY_BYTES_MIN = 32;
/** A new key and an old one are what a change takes; each one more costs every wrong token an HMAC. */
const KEYS_MAX = 4;

const OTHERS_MAY_READ = 0o004;

/** Can anybody on the machine read it, by its mode? */
function isOpen(mode: number): boolean {
  return (mode & OTHERS_MAY_READ) !== 0;
}

/** The file without the line breaks at its end. Throws Error for an empty one. */
function parseSecret(content: Buffer): Buffer {
  let end = content.length;
  while (end > 0 && (content[end - 1] === 0x0a || content[end - 1] === 0x0d)) end--;
  // Nova takes an empty one for real, and so would everybody else.
  if (end === 0) throw new Error("the file is empty");
  return Buffer.from(content.subarray(0, end));
}

/** One a line, hex or base64; # and empty: none. The first signs, the rest are believed. Throws: the line's number. */
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
function makeKeyFile(path: string, clock: Clock): boolean {
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

import { Buffer } from "node:buffer";
import { ensureDirectory } from "../../platform/files.ts";
import type { Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { WatchedFile } from "../../platform/watched-file.ts";
import { isOpen, makeKeyFile, parseKeys, parseSecret } from "./secret-files.ts";
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

  /** The newest first. */
  get keys(): readonly Buffer[] {
    return this.#keys.value;
  }

  /**
   * Without a file the empty one: as Nova and Neutron's agents take it where `metadata_proxy_shared_secret` is not set.
   */
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

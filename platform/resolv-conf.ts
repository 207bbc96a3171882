import { constants } from "node:fs";
import { type FileHandle, open, realpath } from "node:fs/promises";
import type { Dns } from "../ipam/definition/routes-and-dns.ts";
import type { Finding } from "../ipam/finding.ts";
import { type Refusal, RefusalError, refuse } from "../ipam/refusals.ts";
import { SingleFlight } from "./single-flight.ts";
import type { Clock } from "./time.ts";

/** Larger than any resolv.conf (libc reads three name servers and 256 characters of a search list). */
const RESOLV_CONF_BYTES_MAX = 64 * 1024;
/** An identity uses what was read within this time, ms; an ADD reads again. */
const BELIEVED_MS = 30_000;
/** Never through a link, and never waiting for the other end of a FIFO. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

interface ResolverFilesOptions {
  readonly paths: readonly string[];
  /** No configuration may name a file, because tenants write configurations here. */
  readonly refused: boolean;
  readonly clock: Clock;
}

/** Files that `ipam.resolvConf` may name: a network's author must not read others through the daemon. */
export class ResolverFiles {
  readonly #paths: readonly string[];
  readonly #refused: boolean;
  readonly #clock: Clock;
  readonly #reading = new SingleFlight<Dns>();
  readonly #known = new Map<string, { readonly dns: Dns; readonly readMs: number }>();

  constructor({ paths, refused, clock }: ResolverFilesOptions) {
    this.#paths = paths;
    this.#refused = refused;
    this.#clock = clock;
  }

  /** The DNS part of a result, as host-local's `resolvConf` (resolv.conf(5)). Throws RefusalError CONFIG_INVALID. */
  read(path: string): Promise<Dns> {
    return this.#reading.run(() => this.#read(path), path);
  }

  /** What was recently read of it; undefined: `learn` first. */
  known(path: string): Dns | undefined {
    const known = this.#known.get(path);
    if (known === undefined || this.#clock.monotonicMs() - known.readMs >= BELIEVED_MS) return undefined;
    return known.dns;
  }

  /** Reads the file for `known`. One that may not or cannot be read counts as empty. */
  async learn(path: string): Promise<void> {
    const dns = await this.read(path).catch((error: Error) => {
      if (error instanceof RefusalError) return {};
      throw error;
    });
    this.#known.set(path, { dns, readMs: this.#clock.monotonicMs() });
  }

  async #read(path: string): Promise<Dns> {
    if (this.#refused) {
      const remedy =
        "in Kubernetes a network may not name a file of the node; remove it and set ipam.dns, or set resolvConfInNads: on " +
        "in the daemon's settings";
      throw invalid(path, remedy);
    }
    if (!this.#paths.includes(path)) throw invalid(path, this.#allowed());
    try {
      const real = await realpath(path);
      if (!this.#paths.includes(real)) throw invalid(path, `it is a link to ${real}; ${this.#allowed()}`);
      return parseResolvConf(await readSmallFile(path, real));
    } catch (error) {
      if (error instanceof RefusalError) throw error;
      throw invalid(path, `a readable resolv.conf is required (${(error as Error).message})`);
    }
  }

  #allowed(): string {
    return `allowed are ${this.#paths.join(", ")} (resolvConfPaths in the daemon's settings)`;
  }
}

/** Networks whose ADDs are refused because of the file that their applied definition or NAD names. */
export async function checkResolverFiles(
  store: {
    networks(): Promise<readonly { readonly name: string }[]>;
    appliedDefinition(network: string): { readonly definition: { readonly resolvConf?: string } } | undefined;
  },
  files: ResolverFiles,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name } of await store.networks()) {
    const path = store.appliedDefinition(name)?.definition.resolvConf;
    const refusal = path === undefined ? null : await refusalOf(files.read(path));
    if (refusal === null) continue;
    const message = `network ${name} serves no ADD: ${refusal.message}`;
    findings.push({ invariant: "network", message, hint: refusal.hint });
  }
  return findings;
}

async function refusalOf(reading: Promise<unknown>): Promise<Refusal | null> {
  try {
    await reading;
    return null;
  } catch (error) {
    if (error instanceof RefusalError) return error.refusal;
    throw error;
  }
}

async function readSmallFile(path: string, real: string): Promise<string> {
  const file = await open(real, OPEN_FLAGS);
  try {
    if (!(await file.stat()).isFile()) throw invalid(path, "a regular file is required");
    // One byte more than the limit is enough, whatever size the file claims to have.
    const bytes = await readUpTo(file, RESOLV_CONF_BYTES_MAX + 1);
    if (bytes.length > RESOLV_CONF_BYTES_MAX)
      throw invalid(path, `a resolv.conf of at most ${RESOLV_CONF_BYTES_MAX} bytes is required`);
    return bytes.toString("utf8");
  } finally {
    await file.close();
  }
}

async function readUpTo(file: FileHandle, bytesMax: number): Promise<Buffer> {
  const buffer = Buffer.alloc(bytesMax);
  let length = 0;
  while (length < bytesMax) {
    const { bytesRead } = await file.read(buffer, length, bytesMax - length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return buffer.subarray(0, length);
}

function invalid(path: string, remedy: string): RefusalError {
  return new RefusalError(refuse("CONFIG_INVALID", { key: "ipam.resolvConf", value: path, remedy }));
}

function parseResolvConf(text: string): Dns {
  const nameservers: string[] = [];
  const search: string[] = [];
  const options: string[] = [];
  let domain: string | undefined;
  for (const line of text.split("\n")) {
    const [key, ...values] = line.trim().split(/\s+/);
    if (key === "nameserver" && values[0] !== undefined) nameservers.push(values[0]);
    else if (key === "domain" && values[0] !== undefined) domain = values[0];
    else if (key === "search") search.push(...values);
    else if (key === "options") options.push(...values);
  }
  return {
    ...(nameservers.length > 0 ? { nameservers } : {}),
    ...(domain === undefined ? {} : { domain }),
    ...(search.length > 0 ? { search } : {}),
    ...(options.length > 0 ? { options } : {}),
  };
}

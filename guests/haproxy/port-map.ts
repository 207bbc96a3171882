import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { PortAddress } from "../kernel/port-address.ts";
import { ask } from "./command-socket.ts";

/** Who is behind a port, as the metadata server is told. Validated: none of it has a blank or "|". */
export interface PortIdentity {
  readonly address: PortAddress;
  readonly network: string;
  readonly subject: string;
  /** The recorded address. */
  readonly source: string;
}

/** haproxy takes commands of up to 16 KiB. */
const COMMAND_CHARS_MAX = 12_000;

/** A map of ports or of services: a file, read by haproxy at its start, and what a running haproxy was told since. */
export class PortMap {
  readonly #path: string;
  readonly #statsSocket: string;
  #written: string | null = null;
  /** What the running haproxy has; null: not known. */
  #running: Map<string, string> | null = null;

  constructor(path: string, statsSocket: string) {
    this.#path = path;
    this.#statsSocket = statsSocket;
  }

  /** Writes the file, if it is another one. */
  write(ports: ReadonlyMap<string, string>): void {
    const text = [...ports].map(([key, value]) => `${key} ${value}\n`).join("");
    if (text === this.#written && existsSync(this.#path)) return;
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o711 });
    writeFileSync(`${this.#path}.new`, text, { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#written = text;
  }

  /** Leaves a file that is there as it is: haproxy does not start without. */
  ensure(): void {
    if (!existsSync(this.#path)) this.write(new Map());
  }

  loaded(ports: ReadonlyMap<string, string>): void {
    this.#running = new Map(ports);
  }

  /** What haproxy has is to be compared before the next change. */
  forget(): void {
    this.#running = null;
  }

  /** Adds and corrects in the running haproxy what it lacks. Throws when it does not take it. */
  async admit(ports: ReadonlyMap<string, string>): Promise<void> {
    const running = await this.#known();
    const missing = [...ports].filter(([key]) => !running.has(key));
    const other = [...ports].filter(([key, value]) => running.has(key) && running.get(key) !== value);
    await this.#change(async () => {
      for (const some of inPieces(missing.map(([key, value]) => `${key} ${value}\n`)))
        await this.#command(`add map ${this.#path} <<\n${some.join("")}`);
      for (const some of inPieces(other.map(([key, value]) => `set map ${this.#path} ${key} ${value};`)))
        await this.#command(some.join(""));
    });
    for (const [key, value] of [...missing, ...other]) running.set(key, value);
  }

  /** Takes out of the running haproxy what is not among `ports`. Throws when haproxy does not do so. */
  async retire(ports: { has(key: string): boolean }): Promise<void> {
    const running = await this.#known();
    const gone = [...running.keys()].filter((key) => !ports.has(key));
    await this.#change(async () => {
      for (const some of inPieces(gone.map((key) => `del map ${this.#path} ${key};`)))
        await this.#command(some.join(""));
    });
    for (const key of gone) running.delete(key);
  }

  async #known(): Promise<Map<string, string>> {
    this.#running ??= parseShowMap(await ask(this.#statsSocket, `show map ${this.#path}`));
    return this.#running;
  }

  async #change(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.forget();
      throw error;
    }
  }

  /** haproxy says nothing when it has done it. */
  async #command(command: string): Promise<void> {
    const said = (await ask(this.#statsSocket, command)).trim();
    if (said !== "") throw new Error(`haproxy refused a change of its map: ${said.slice(0, 200)}`);
  }
}

/** Key and value of each port, as haproxy's configuration looks them up. */
export function mapEntries(ports: readonly PortIdentity[]): ReadonlyMap<string, string> {
  return new Map(
    ports.map(({ address, network, subject, source }) => [keyOf(address), `${network}|${subject}|${source}`]),
  );
}

function keyOf(address: PortAddress): string {
  return address.toString(16).toUpperCase();
}

/** Lines of `pointer key value`. */
export function parseShowMap(text: string): Map<string, string> {
  if (/^Unknown map/.test(text)) throw new Error("haproxy does not have the map");
  return new Map(
    text
      .split("\n")
      .map((line) => line.split(" "))
      .filter((words) => words.length === 3)
      .map(([, key, value]) => [key as string, value as string]),
  );
}

function inPieces(words: readonly string[]): readonly (readonly string[])[] {
  const pieces: string[][] = [];
  let chars = COMMAND_CHARS_MAX;
  for (const word of words) {
    if (chars + word.length > COMMAND_CHARS_MAX) {
      pieces.push([]);
      chars = 0;
    }
    pieces.at(-1)?.push(word);
    chars += word.length;
  }
  return pieces;
}

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { replaceDurably } from "../platform/files.ts";
import type { Log } from "../platform/log.ts";
import { CLOSED_BRIDGES, namesIn } from "./ports/closed-bridges.ts";

export interface GuardMemoryPaths {
  readonly runDir: string;
  /** Outlives a reboot, and may belong to several run directories. */
  readonly state: string;
  /** Of the run directory. */
  readonly tag: string;
}

/** What NodeGuard knows of earlier processes, and what the daemon reads of it. */
export class GuardMemory {
  /** Where rules of this boot are or were to be: the next process opens what it does not want. */
  readonly devices: ReadonlySet<string>;
  /** Bridges that were closed last, also before a reboot. */
  readonly bridges: ReadonlySet<string>;
  readonly #devicesPath: string;
  readonly #confirmedPath: string;
  readonly #rememberedPath: string;
  readonly #written = new Map<string, ReadonlySet<string>>();
  readonly #log: Log;
  #problem = "";

  constructor({ runDir, state, tag }: GuardMemoryPaths, log: Log) {
    this.#log = log;
    this.#devicesPath = join(runDir, "closed-devices");
    this.#confirmedPath = join(runDir, CLOSED_BRIDGES);
    this.#rememberedPath = join(state, `${CLOSED_BRIDGES}-${tag}`);
    this.devices = this.#read(this.#devicesPath);
    const confirmed = this.#read(this.#confirmedPath);
    this.bridges = new Set([...confirmed, ...this.#read(this.#rememberedPath)]);
  }

  /** Throws when it cannot be written. */
  keep(devices: ReadonlySet<string>): void {
    this.#write(this.#devicesPath, devices, (text) => writeFileSync(this.#devicesPath, text, { mode: 0o600 }));
  }

  /** Bridges whose rules are in place now. Throws when it cannot be written. */
  confirm(bridges: ReadonlySet<string>): void {
    this.#write(this.#confirmedPath, bridges, (text) => writeFileSync(this.#confirmedPath, text, { mode: 0o600 }));
  }

  /** For the next boot. A disk that is full or read-only keeps nobody from rules in this one. */
  remember(bridges: ReadonlySet<string>): void {
    try {
      this.#write(this.#rememberedPath, bridges, (text) => replaceDurably(this.#rememberedPath, Buffer.from(text)));
      this.#problem = "";
    } catch (error) {
      const problem = (error as Error).message;
      if (problem !== this.#problem)
        this.#log.warn({ problem }, "which bridges are closed at the next boot cannot be written down");
      this.#problem = problem;
    }
  }

  #read(path: string): ReadonlySet<string> {
    const names = new Set(existsSync(path) ? namesIn(readFileSync(path, "utf8")) : []);
    this.#written.set(path, names);
    return names;
  }

  #write(path: string, names: ReadonlySet<string>, write: (text: string) => void): void {
    if (sameSet(names, this.#written.get(path) ?? new Set())) return;
    mkdirSync(dirname(path), { recursive: true, mode: 0o711 });
    this.#written.delete(path);
    write([...names].map((name) => `${name}\n`).join(""));
    this.#written.set(path, names);
  }
}

export function sameSet(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return one.size === other.size && [...one].every((element) => other.has(element));
}

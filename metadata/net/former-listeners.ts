import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Names } from "./kernel/names.ts";
import { run } from "./kernel/run.ts";
import { hostLinks, namespaceId, namespaceNames, namespacePath } from "./kernel/sysfs.ts";

/**
 * What the release before this one has made: for each network a namespace, a bridge port and a frontend of haproxy, and
 * tables of rules for them. They serve guests until each has a port of its own, and are taken away then.
 */
export class FormerListeners {
  readonly #names: Names;
  #frontends: string;
  #present: boolean;

  constructor(names: Names, runDir: string) {
    this.#names = names;
    this.#present = this.#links().length > 0 || this.#namespaces().length > 0;
    this.#frontends = this.#present ? frontendsIn(join(runDir, "haproxy.cfg")) : "";
  }

  get present(): boolean {
    return this.#present;
  }

  /** Of the configuration that haproxy runs with, as they are. Empty: none, or one could not be bound. */
  frontends(): string {
    const spaces = [...this.#frontends.matchAll(/^ {2}bind .* namespace (\S+)/gm)].map(([, name]) => name);
    const areThere = spaces.every((name) => namespaceId(namespacePath(name as string)) !== null);
    return areThere ? this.#frontends : "";
  }

  /** After it, haproxy's configuration is without them. */
  async remove(): Promise<void> {
    this.#frontends = "";
    const { table } = this.#names;
    for (const link of this.#links()) await run("ip", ["link", "delete", link]);
    for (const namespace of this.#namespaces()) await run("ip", ["netns", "delete", namespace]);
    for (const family of ["bridge", "ip"]) await run("nft", ["delete", "table", family, table]);
    this.#present = false;
  }

  #links(): readonly string[] {
    const { linkPrefix } = this.#names;
    return hostLinks().filter((name) => name.startsWith(linkPrefix) && name.length === linkPrefix.length + 8);
  }

  #namespaces(): readonly string[] {
    return namespaceNames().filter((name) => name.startsWith(`${this.#names.namespace}-`));
  }
}

function frontendsIn(configPath: string): string {
  try {
    return /^frontend network:[\s\S]*/m.exec(readFileSync(configPath, "utf8"))?.[0] ?? "";
  } catch {
    return "";
  }
}

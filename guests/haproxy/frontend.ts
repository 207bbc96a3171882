/*
 * guests/haproxy/: who answers in the listener's namespace
 *
 *   frontend                      haproxy, its configuration and its map of ports, as one
 *   haproxy-text, port-map        the configuration, and who is behind which port; *-headers: what a request may carry
 *   haproxy, haproxy-process      the process, which outlives us
 *   command-socket                its sockets, and its counters
 */

import { run } from "../kernel/run.ts";
import { namespacePath } from "../kernel/sysfs.ts";
import type { Haproxy, ReloadOutcome } from "./haproxy.ts";
import { type HaproxyPlan, haproxyText } from "./haproxy-text.ts";
import type { PortMap } from "./port-map.ts";

export interface FrontendParts {
  readonly haproxy: Haproxy;
  readonly map: PortMap;
  /** Which networks have which ports beside port 80. */
  readonly services: PortMap;
  readonly plan: HaproxyPlan;
  readonly reloaded: (outcome: ReloadOutcome) => void;
}

export class Frontend {
  readonly #parts: FrontendParts;
  /** Of the namespace in which it was seen to listen. */
  #listensIn: number | null = null;
  /** null: what an earlier process has left stays. */
  #services: ReadonlyMap<string, string> | null = null;

  constructor(parts: FrontendParts) {
    this.#parts = parts;
  }

  /**
   * Answers for these ports, and until `retire` for those before. `namespaceId`: of the namespace there now. `again`:
   * what haproxy has, and where it listens, is compared. Resolves with why guests are not answered; null: they are.
   */
  async serve(ports: ReadonlyMap<string, string>, namespaceId: number | null, again: boolean): Promise<string | null> {
    const { haproxy, map, services, plan } = this.#parts;
    map.write(ports);
    if (this.#services === null) services.ensure();
    else services.write(this.#services);
    if (again) for (const one of [map, services]) one.forget();
    const text = haproxyText(plan);
    if (!haproxy.runsWith(text)) {
      const problem = await this.#load(text, ports, false);
      if (problem !== null) return problem;
    }
    if (again || this.#listensIn !== namespaceId) {
      const deaf = !(await this.#listens());
      const problem = deaf ? await this.#load(text, ports, true) : null;
      if (problem !== null) return problem;
      if (deaf && !(await this.#listens())) return "haproxy does not listen in its namespace";
      this.#listensIn = namespaceId;
    }
    try {
      await map.admit(ports);
      await this.#tellServices();
      return null;
    } catch {
      // It reads the file again, which is right.
      const problem = await this.#load(text, ports, false);
      if (problem === null) this.#listensIn = namespaceId;
      return problem;
    }
  }

  /** What guests reach beside port 80: `network|port`, its name at the relay. false: haproxy does not listen yet. */
  async offer(services: ReadonlyMap<string, string>): Promise<boolean> {
    this.#services = services;
    this.#parts.services.write(services);
    // `serve` tells it.
    if (this.#listensIn === null || !this.#parts.haproxy.alive) return false;
    await this.#tellServices();
    return true;
  }

  async #tellServices(): Promise<void> {
    if (this.#services === null) return;
    const { services } = this.#parts;
    await services.admit(this.#services);
    await services.retire(this.#services);
  }

  /** These ports are all that there are: nothing reaches it from others any more. */
  async retire(ports: ReadonlyMap<string, string>): Promise<void> {
    try {
      await this.#parts.map.retire(ports);
    } catch {
      this.#parts.map.forget();
    }
  }

  async stop(): Promise<void> {
    this.#listensIn = null;
    for (const one of [this.#parts.map, this.#parts.services]) one.forget();
    await this.#parts.haproxy.stop();
  }

  /** `fresh`: not by a reload, which hands sockets on, also those of a namespace that is gone. */
  async #load(text: string, ports: ReadonlyMap<string, string>, fresh: boolean): Promise<string | null> {
    const { haproxy, map, services, reloaded } = this.#parts;
    const refused = await haproxy.check(text);
    if (refused !== null) {
      reloaded("refused");
      return refused;
    }
    const { outcome, problem } = await haproxy.serve(text, { fresh });
    reloaded(outcome);
    for (const one of [map, services]) one.forget();
    if (outcome === "ok") map.loaded(ports);
    this.#listensIn = null;
    return problem ?? null;
  }

  async #listens(): Promise<boolean> {
    const path = namespacePath(this.#parts.plan.namespace);
    const shown = await run("nsenter", [`--net=${path}`, "cat", "/proc/net/tcp"]);
    return /: 00000000:0050 [0-9A-F:]+ 0A /.test(shown.stdout);
  }
}

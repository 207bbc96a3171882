import type { Log } from "../platform/log.ts";
import type { AdmittedPort, DatapathDriver } from "./drivers/driver.ts";
import type { PortAddress } from "./kernel/port-address.ts";
import type { NodeGuard } from "./node-guard.ts";

export interface DatapathParts {
  /** The first that claims a link has it. */
  readonly drivers: readonly DatapathDriver[];
  readonly guard: NodeGuard;
  readonly log: Log;
  /** Somebody else had changed what this driver had made; it is as it was. */
  readonly repaired: (driver: DatapathDriver["kind"]) => void;
}

/** All drivers, and what keeps guests from others who answer at the service's addresses. One call after the other. */
export class Datapath {
  readonly #parts: DatapathParts;
  readonly #suspect = new Set<DatapathDriver>();

  constructor(parts: DatapathParts) {
    this.#parts = parts;
  }

  get drivers(): readonly DatapathDriver[] {
    return this.#parts.drivers;
  }

  get isTroubled(): boolean {
    return this.#suspect.size > 0;
  }

  /** The driver's datapath may have been changed by somebody else. */
  suspect(driver: DatapathDriver): void {
    this.#suspect.add(driver);
  }

  /** As DatapathDriver.sync, over all drivers. Resolves with why ports are not admitted. */
  async sync(
    ports: readonly AdmittedPort[],
    again: boolean,
    hurry: AbortSignal | undefined,
  ): Promise<ReadonlyMap<PortAddress, string>> {
    const refused = new Map<PortAddress, string>();
    for (const driver of this.#parts.drivers) {
      const own = portsOf(driver, ports);
      const problems = await this.#sync(driver, own, again && hurry?.aborted !== true, hurry);
      for (const { address } of own) {
        const problem = typeof problems === "string" ? problems : problems.get(address);
        if (problem !== undefined) refused.set(address, problem);
      }
    }
    return refused;
  }

  /** Before the listener is made for these ports: first of all they are kept from others. */
  guard(ports: readonly AdmittedPort[], again: boolean): Promise<void> {
    return this.#parts.guard.sync(linksOf(ports), again);
  }

  /** As DatapathDriver.shut, over all drivers: what fails at one of them is logged. */
  async shut(ports: readonly AdmittedPort[], unlessThere: boolean): Promise<void> {
    const { drivers, guard, log } = this.#parts;
    await guard.add(linksOf(ports));
    for (const driver of drivers) {
      try {
        await driver.shut(portsOf(driver, ports), unlessThere);
      } catch (error) {
        const problem = (error as Error).message;
        log.error({ driver: driver.kind, problem }, "what keeps guests from others cannot be left in place");
      }
    }
  }

  async remove(): Promise<void> {
    for (const driver of this.#parts.drivers) await driver.remove();
    await this.guard([], true);
  }

  /** Resolves with the problems by port, or with that of all of them. */
  async #sync(
    driver: DatapathDriver,
    ports: readonly AdmittedPort[],
    again: boolean,
    hurry: AbortSignal | undefined,
  ): Promise<ReadonlyMap<PortAddress, string> | string> {
    const { repaired, log } = this.#parts;
    const isSuspect = this.#suspect.delete(driver);
    try {
      // What is known to be disturbed is mended whoever waits.
      const result = await driver.sync(ports, again || isSuspect, isSuspect ? undefined : hurry);
      if (result.repaired) repaired(driver.kind);
      return result.failed;
    } catch (error) {
      const problem = (error as Error).message;
      this.#suspect.add(driver);
      if (ports.length > 0) log.error({ driver: driver.kind, problem }, "a driver cannot serve its ports");
      return problem;
    }
  }
}

function portsOf({ kind }: DatapathDriver, ports: readonly AdmittedPort[]): readonly AdmittedPort[] {
  return ports.filter(({ port }) => port.driver === kind);
}

function linksOf(ports: readonly AdmittedPort[]): readonly string[] {
  return ports.map(({ port }) => port.link);
}

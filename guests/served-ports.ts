import type { Log } from "../platform/log.ts";
import { SingleFlight } from "../platform/single-flight.ts";
import { type Clock, sleep, type Timer } from "../platform/time.ts";
import type { Datapath } from "./datapath.ts";
import type { AdmittedPort, DatapathDriver } from "./drivers/driver.ts";
import { FailureLog } from "./failure-log.ts";
import { hasMoved, WantedGuests } from "./guest.ts";
import type { Frontend } from "./haproxy/frontend.ts";
import { mapEntries } from "./haproxy/port-map.ts";
import { hostLink } from "./kernel/sysfs.ts";
import type { Listener } from "./listener/listener.ts";
import type { OvnPods, WantedHere } from "./ovn-pods.ts";
import { PortFinder } from "./port-finder.ts";
import type { NotFound } from "./port-lookup.ts";
import type { PortMemory } from "./port-memory.ts";
import { type FoundPort, PortSearch } from "./port-search.ts";
import type { FailedPort, WantedPorts } from "./ports/wire.ts";

/** How long a change waits for its searches: what takes longer is carried out when it is found. */
const SEARCH_GRACE_MS = 500;
/** Between two changes for what was found after that: a full node that knows nothing finds hundreds one by one. */
const FOUND_PAUSE_MS = 200;

/** Until what could not be written down is tried again. */
const WRITE_PAUSE_MS = 1_000;

const NOT_WANTED: NotFound = { kind: "pending", problem: "it is not wanted any more" };

export interface PortsParts {
  readonly memory: PortMemory;
  readonly listener: Listener;
  readonly frontend: Frontend;
  readonly datapath: Datapath;
  readonly pods: OvnPods;
  readonly log: Log;
  readonly clock: Clock;
  /** These networks have guests here, in a stable order: said at each change, before they are served. */
  readonly networks: (names: readonly string[]) => void;
  /** What `failed` says has changed outside of a call. */
  readonly changed: () => void;
}

/** Brings the node to the wanted ports, from any state. */
export class Ports {
  readonly #parts: PortsParts;
  readonly #search: PortSearch;
  readonly #finder: PortFinder;
  readonly #guests = new WantedGuests();
  /** By key: why the datapath does not admit the port. */
  #refused = new Map<string, string>();
  readonly #failureLog: FailureLog;
  #problem: string | null = null;
  #isEmpty = false;
  #isHeard = false;
  #ending: "shut" | "remove" | null = null;
  readonly #turns = new SingleFlight<void>();
  /** Whether the next turn also checks what seems to be in place. */
  #again = false;
  /** When what could not be written down is tried again, on the clock that never jumps. */
  #writeDueMs = 0;
  #hurry: AbortSignal | undefined;
  /** Calls that carry out what is found meanwhile. */
  #graces = 0;
  #foundTimer: Timer | null = null;

  constructor(parts: PortsParts) {
    this.#parts = parts;
    this.#failureLog = new FailureLog(parts.log, parts.clock, () => this.failed);
    this.#finder = new PortFinder(parts.memory, parts.datapath.drivers, parts.pods);
    this.#search = new PortSearch(
      parts.clock,
      (key) => this.#find(key),
      (key, found) => this.#foundPort(key, found),
    );
    const kinds = new Set(parts.datapath.drivers.map(({ kind }) => kind));
    for (const [key, { port }] of [...parts.memory.entries()]) if (!kinds.has(port.driver)) parts.memory.demote(key);
  }

  /** Why no guest at all is served; null: nothing is known to be wrong. */
  get problem(): string | null {
    return this.#problem;
  }

  get count(): number {
    return this.#guests.count;
  }

  /** Is something to be tried again soon, other than a search? */
  get isTroubled(): boolean {
    return this.#problem !== null || this.#parts.datapath.isTroubled;
  }

  /** Is a port to be searched for again, or to be written down? */
  get isSearchDue(): boolean {
    const { memory, clock } = this.#parts;
    return this.#search.isDue || (memory.hasUnwritten && clock.monotonicMs() >= this.#writeDueMs);
  }

  get servedByDriver(): ReadonlyMap<DatapathDriver["kind"], number> {
    const counts = new Map(this.#parts.datapath.drivers.map(({ kind }) => [kind, 0]));
    for (const [key, { port }] of this.#parts.memory.entries())
      if (this.#guests.fit.has(key) && !this.#refused.has(key))
        counts.set(port.driver, (counts.get(port.driver) ?? 0) + 1);
    return counts;
  }

  get failed(): readonly FailedPort[] {
    const failed = [...this.#guests.unfit];
    for (const [key, { wanted }] of this.#guests.fit) {
      const found = this.#problemOf(key);
      if (found === null) continue;
      failed.push({ containerId: wanted.containerId, interface: wanted.interface, ...found });
    }
    return failed;
  }

  /** Resolves when all but long searches is done. `again`: nothing counts as in place, until `hurry` aborts. */
  async carryOut(wanted: WantedPorts, again: boolean, hurry?: AbortSignal): Promise<void> {
    this.#isHeard = true;
    const isChanged = this.#take(this.#parts.pods.among(wanted));
    if (again) this.#forgetMoved();
    this.#hurry = hurry;
    // What is recorded comes before any look into a guest's namespace.
    if (again || isChanged) await this.#inTurn(again);
    this.#search.want(this.#unknown(), again);
    await this.#searched();
    await this.#inTurn(false);
    this.#failureLog.look();
  }

  /** The driver's datapath may have been changed by somebody else: it is compared at once. */
  async restore(driver: DatapathDriver): Promise<void> {
    this.#parts.datapath.suspect(driver);
    await this.#inTurn(false);
  }

  /** Compares what may have been changed. Before the daemon is heard: closes what is known and not served any more. */
  look(): Promise<void> {
    return this.#inTurn(false);
  }

  /** `shut`: ends the listener, closes what guests could reach instead. `remove`: also what an earlier process left. */
  async end(how: "shut" | "remove"): Promise<void> {
    this.#foundTimer?.cancel();
    this.#failureLog.stop();
    this.#ending = how;
    await this.#inTurn(false);
  }

  /** Returns whether what is recorded of guests has changed. */
  #take(wanted: WantedHere): boolean {
    const { memory } = this.#parts;
    const changed = this.#guests.take(wanted);
    for (const key of changed) this.#search.forget(key);
    const { fit } = this.#guests;
    const names = new Set([...fit.values()].map((guest) => guest.wanted.network));
    this.#parts.networks([...names].sort());
    memory.keepOnly(fit);
    const moved = [...fit].filter(([key, guest]) => hasMoved(memory, key, guest));
    for (const [key] of moved) {
      memory.delete(key);
      this.#search.forget(key);
    }
    return changed.length > 0 || moved.length > 0 || fit.size === 0;
  }

  /** A link of another index is another one, under whatever name: its port is nobody's until it was found anew. */
  #forgetMoved(): void {
    const { memory } = this.#parts;
    for (const [key, { port }] of [...memory.entries()])
      if (hostLink(port.link)?.ifindex !== port.ifindex) memory.delete(key);
  }

  #unknown(): ReadonlySet<string> {
    const { memory } = this.#parts;
    return new Set([...this.#guests.fit.keys()].filter((key) => memory.get(key) === undefined));
  }

  async #searched(): Promise<void> {
    const over = new AbortController();
    const grace = sleep(this.#parts.clock, SEARCH_GRACE_MS, over.signal);
    this.#graces += 1;
    await Promise.race([this.#search.firstSettled(), grace]);
    this.#graces -= 1;
    over.abort();
  }

  #find(key: string): Promise<FoundPort | NotFound> {
    const guest = this.#guests.fit.get(key);
    return guest === undefined ? Promise.resolve(NOT_WANTED) : this.#finder.find(key, guest, this.#guests.fit);
  }

  /** Returns why it does not count; null: it does. */
  #foundPort(key: string, { port, mac, space }: FoundPort): NotFound | null {
    const { memory, changed, clock } = this.#parts;
    if (!this.#guests.fit.has(key)) return NOT_WANTED;
    // Found twice at the same time: it is that of the first.
    if (memory.ownerOf(port.ifindex) !== null)
      return { kind: "pending", problem: `${port.link} is the port of another attachment` };
    memory.add(key, port, mac, space);
    if (this.#graces > 0 || this.#foundTimer !== null) return null;
    this.#foundTimer = clock.timer(FOUND_PAUSE_MS, () => {
      this.#foundTimer = null;
      void this.#inTurn(false).then(changed, () => {});
    });
    return null;
  }

  /** Carries out what is wanted, one turn after the other; what is asked for while one waits is part of it. */
  #inTurn(again: boolean): Promise<void> {
    this.#again ||= again;
    return this.#turns.next(() => {
      const isAgain = this.#again;
      this.#again = false;
      if (this.#ending === "remove") return this.#remove();
      if (this.#ending === "shut" || !this.#isHeard) return this.#shut(this.#ending === null);
      return this.#guests.fit.size === 0 ? this.#remove() : this.#serve(isAgain);
    });
  }

  /** `unlessThere`: what still serves goes on. */
  async #shut(unlessThere: boolean): Promise<void> {
    const { datapath, memory, frontend, listener } = this.#parts;
    await datapath.shut(
      [...memory.entries()].map(([, record]) => record),
      unlessThere,
    );
    if (unlessThere) return;
    await frontend.stop();
    await listener.removeAll();
  }

  async #remove(): Promise<void> {
    if (this.#isEmpty) return;
    const { datapath, frontend, listener } = this.#parts;
    await datapath.remove();
    await frontend.stop();
    await listener.removeAll();
    this.#save();
    this.#refused.clear();
    this.#problem = null;
    this.#isEmpty = true;
  }

  async #serve(again: boolean): Promise<void> {
    const { datapath, memory, frontend } = this.#parts;
    this.#isEmpty = false;
    const refused = new Map<string, string>();
    // Before an address is used anywhere.
    const unwritten = this.#save();
    const known = [...this.#guests.fit].flatMap(([key, guest]) => {
      const record = memory.get(key);
      if (record === undefined) return [];
      if (unwritten === null || !memory.isUnwritten(key)) return [{ key, guest, record }];
      refused.set(key, `its port cannot be written down: ${unwritten}`);
      return [];
    });
    const entries = mapEntries(
      known.map(({ guest, record }) => ({
        address: record.address,
        network: guest.wanted.network,
        subject: guest.subject,
        source: guest.source,
      })),
    );
    const ports = known.map(({ guest, record }): AdmittedPort => {
      const { address, port, mac } = record;
      return { address, port, mac: guest.mac ?? mac };
    });
    await datapath.guard(ports, again);
    this.#problem = await this.#listen(entries, again && this.#hurry?.aborted !== true);
    const problems = await datapath.sync(ports, again, this.#hurry);
    for (const { key, record } of known) {
      const problem = problems.get(record.address);
      if (problem !== undefined) refused.set(key, problem);
    }
    this.#refused = refused;
    await frontend.retire(entries);
  }

  async #listen(entries: ReadonlyMap<string, string>, again: boolean): Promise<string | null> {
    const { listener, frontend, log } = this.#parts;
    let problem: string | null;
    try {
      await listener.prepare(again);
      problem = await frontend.serve(entries, listener.namespaceId, again);
    } catch (error) {
      problem = (error as Error).message;
    }
    if (problem !== null && problem !== this.#problem) log.error({ problem }, "guests get no metadata");
    return problem;
  }

  /** Returns why new ports cannot be written down; null: they are. Without it their addresses would be given again. */
  #save(): string | null {
    const { memory, log, clock } = this.#parts;
    try {
      memory.save();
      return null;
    } catch (error) {
      this.#writeDueMs = clock.monotonicMs() + WRITE_PAUSE_MS;
      log.error({ error: (error as Error).message }, "which ports were found cannot be written down");
      return (error as Error).message;
    }
  }

  #problemOf(key: string): NotFound | null {
    if (this.#parts.memory.get(key) === undefined)
      return this.#search.problemOf(key) ?? { kind: "pending", problem: "its port is being searched for" };
    const problem = this.#refused.get(key);
    return problem === undefined ? null : { kind: "pending", problem };
  }
}

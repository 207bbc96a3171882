import type { Finding } from "../../ipam/finding.ts";
import type { Clock } from "../../platform/time.ts";
import { portKey } from "./wanted-state.ts";
import type { FailedPort, PortReport, WantedPorts } from "./wire.ts";

/** metadata-net repeats its request at once; silent for longer, it counts as away and its reports as void, ms. */
const SILENT_MS_MAX = 10_000;

/** Failed ports that are named one by one; more would hide other findings. */
const NAMED_MAX = 10;

/** What metadata-net says of one port; null: nothing yet. */
export type PortState = { readonly kind: "up" } | Pick<FailedPort, "kind" | "problem"> | null;

/** The last report of `holdfast metadata-net`. */
export class PortReports {
  readonly #clock: Clock;
  #applied = -1;
  #failed: readonly FailedPort[] = [];
  #byKey: ReadonlyMap<string, FailedPort> = new Map();
  #problem: string | null = null;
  #polls = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `applied`: the number of the state that was carried out; -1: none of this run. */
  take({ failed, problem }: PortReport, applied: number): void {
    this.#applied = applied;
    this.#failed = failed;
    this.#byKey = new Map(failed.map((one) => [portKey(one), one]));
    this.#problem = problem;
  }

  pollBegins(): void {
    this.#polls += 1;
  }

  pollEnds(): void {
    this.#polls -= 1;
    this.#lastMs = this.#clock.monotonicMs();
  }

  /** The report for a port, once the state with that number was applied: an earlier one may lack the port. */
  stateOf(key: string, number: number): PortState {
    if (this.#applied < number) return null;
    const failed = this.#byKey.get(key);
    if (failed !== undefined) return { kind: failed.kind, problem: failed.problem };
    return this.#problem === null ? { kind: "up" } : { kind: "pending", problem: this.#problem };
  }

  /** Number of the state that was carried out last; -1: none of this run. */
  get applied(): number {
    return this.#applied;
  }

  get away(): boolean {
    return this.#polls === 0 && this.#clock.monotonicMs() - this.#lastMs > SILENT_MS_MAX;
  }

  /** Why no guest is served at all; null: nothing is known to be wrong. */
  get problem(): string | null {
    return this.away ? null : this.#problem;
  }

  get failed(): readonly FailedPort[] {
    return this.away ? [] : this.#failed;
  }
}

export function portFindings(reports: PortReports, { ports, ovnNetworks }: WantedPorts): Finding[] {
  const wantedCount = ports.length + ovnNetworks.length;
  if (wantedCount === 0) return [];
  if (reports.away) {
    const what = ports.length === 1 ? "1 interface" : `${ports.length} interfaces`;
    return [
      finding(
        `holdfast metadata-net is not heard on this node: guests that it knows are served, new ones are not (${what} with metadata)`,
        "start it (systemctl status holdfast-metadata-net), or apply the networks without metadata",
      ),
    ];
  }
  if (reports.problem !== null) {
    return [
      finding(
        `no guest of this node gets metadata: ${reports.problem}`,
        "fix the cause above; metadata-net retries every few seconds, details are in its log",
      ),
    ];
  }
  const networks = new Map(ports.map((one) => [portKey(one), one.network]));
  const failed = reports.failed.filter((one) => networks.has(portKey(one)));
  const named = failed.slice(0, NAMED_MAX).map((one) => failedPort(one, networks.get(portKey(one)) ?? ""));
  const left = failed.length - named.length;
  if (left === 0) return named;
  return [...named, finding(`${left} more interfaces get no metadata`, "see the log of metadata-net")];
}

function failedPort({ containerId, interface: name, kind, problem }: FailedPort, network: string): Finding {
  return finding(
    `interface ${name} of container ${containerId} on network ${network} gets no metadata: ${problem}`,
    kind === "final"
      ? "attach the guest by a plugin that leaves an end of its interface on the node, or apply the network without metadata"
      : "fix the cause above; metadata-net retries every few seconds, details are in its log",
  );
}

function finding(message: string, hint: string): Finding {
  return { invariant: "metadata", message, hint };
}

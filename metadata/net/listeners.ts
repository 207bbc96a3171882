import { isDeepStrictEqual } from "node:util";
import type { Log } from "../../platform/log.ts";
import type { ListenerState, WantedListeners } from "../listeners/wire.ts";
import type { Frontends } from "./haproxy/frontends.ts";
import type { Firewall } from "./kernel/firewall.ts";
import type { FirewallListener } from "./kernel/firewall-text.ts";
import { ensureListenerLink, removeListenerLink } from "./kernel/listener-link.ts";
import type { Names } from "./kernel/names.ts";
import { neighbourCommands, neighboursOf, presentNeighbours } from "./kernel/neighbours.ts";
import { type ListenerPlan, planListeners } from "./kernel/plan.ts";
import type { PortMemory } from "./kernel/port-memory.ts";
import { mustRun } from "./kernel/run.ts";
import { hasNamespace, hostLink, hostLinks, namespaceNames, portOf } from "./kernel/sysfs.ts";

export interface ListenerParts {
  readonly names: Names;
  readonly memory: PortMemory;
  readonly firewall: Firewall;
  readonly frontends: Frontends;
  readonly log: Log;
  /** A part had been changed by somebody else, and was restored. */
  readonly repaired: (repair: Repair) => void;
}

export type Repair =
  | { readonly what: "firewall" }
  | {
      readonly what: "link";
      readonly network: string;
      readonly link: string;
      readonly bridge: string;
      /** What was not as planned. */
      readonly difference: string;
    };

/** What was applied of a plan. */
interface Made {
  readonly plan: ListenerPlan;
  /** null: nobody knows which are there. */
  readonly neighbours: ReadonlyMap<string, string> | null;
}

/** Brings the node to the wanted state, from any state. One call at a time. */
export class Listeners {
  readonly #parts: ListenerParts;
  readonly #made = new Map<string, Made>();
  readonly #problems = new Map<string, string>();
  readonly #lost = new Set<string>();
  #natProblem: string | null = null;

  constructor(parts: ListenerParts) {
    this.#parts = parts;
  }

  /** Ports of VMs that could not be found yet. */
  get lostCount(): number {
    return this.#lost.size;
  }

  /**
   * `again`: nothing counts as in place because it once was; once `hurry` says so, only what is known to be missing is
   * repaired. Resolves with the state of each wanted network.
   */
  async carryOut(
    wanted: WantedListeners,
    again: boolean,
    hurry: () => boolean = () => false,
  ): Promise<readonly ListenerState[]> {
    const thorough = () => again && !hurry();
    const { names, memory, frontends } = this.#parts;
    const { plans, problems } = planListeners(names, wanted.networks);
    const failed = new Map(problems);
    await this.#removeOthers(plans);
    // The rules first, from what is recorded: slow reads of guests' namespaces must not delay them.
    await this.#applyRules(plans, again);
    for (const { network, bridge, attachments } of plans)
      await memory.learn(network, bridge, attachments, again);
    this.#remember(plans);
    this.#noteLost(plans);
    await this.#applyRules(plans, false);
    for (const plan of plans) {
      const problem = await this.#link(plan, thorough());
      if (problem !== null) failed.set(plan.network, problem);
    }
    const linked = plans.filter(({ network }) => !failed.has(network));
    for (const [network, problem] of await frontends.serve(linked, thorough())) failed.set(network, problem);
    for (const plan of linked) await this.#introduce(plan, thorough());
    this.#noteProblems(failed);
    return wanted.networks.map(({ network }) => stateOf(network, failed.get(network)));
  }

  async #applyRules(plans: readonly ListenerPlan[], again: boolean): Promise<void> {
    const { firewall, repaired, log } = this.#parts;
    const rules = plans.map((plan) => this.#firewallListener(plan, again));
    if ((await firewall.apply(rules, again)) === "repaired") repaired({ what: "firewall" });
    const problem = firewall.natProblem;
    if (problem !== null && problem !== this.#natProblem)
      log.warn({ problem }, "guests of bridges with ipMasq may get no metadata: the rule against it failed");
    this.#natProblem = problem;
  }

  /** Without the file only a restart costs more. */
  #remember(plans: readonly ListenerPlan[]): void {
    try {
      this.#parts.memory.keep(plans);
    } catch (error) {
      this.#parts.log.error({ error: (error as Error).message }, "which ports were found cannot be written");
    }
  }

  async #link(plan: ListenerPlan, again: boolean): Promise<string | null> {
    const made = this.#made.get(plan.network);
    const isNew = made === undefined || !sameLink(made.plan, plan);
    const outer = hostLink(plan.link);
    const seemsSo = outer?.master === plan.bridge && outer.up && hasNamespace(plan.namespace);
    if (!again && !isNew && seemsSo) return null;
    try {
      const difference = await ensureListenerLink(plan);
      if (difference !== null) this.#parts.frontends.recheck(plan.network);
      if (difference !== null && !isNew) {
        const { network, link, bridge } = plan;
        this.#parts.repaired({ what: "link", network, link, bridge, difference });
      }
      // The entries of a recreated link went with the old one.
      const neighbours = difference !== null || made === undefined ? null : made.neighbours;
      this.#made.set(plan.network, { plan, neighbours });
      return null;
    } catch (error) {
      return (error as Error).message;
    }
  }

  /** Gives the listener a VM's MAC, so that no other station can answer for the VM's address. */
  async #introduce(plan: ListenerPlan, again: boolean): Promise<void> {
    const { memory, log } = this.#parts;
    const known = this.#made.get(plan.network)?.neighbours ?? null;
    const neighbours = neighboursOf(plan, memory);
    try {
      const present = again || known === null ? await presentNeighbours(plan.namespace) : known;
      const commands = neighbourCommands(present, neighbours);
      if (commands.length > 0)
        await mustRun("ip", ["-n", plan.namespace, "-force", "-batch", "-"], `${commands.join("\n")}\n`);
      this.#made.set(plan.network, { plan, neighbours });
    } catch (error) {
      log.warn({ network: plan.network, error: (error as Error).message }, "neighbour entries not made");
      this.#made.set(plan.network, { plan, neighbours: null });
    }
  }

  /** Everything with our names that belongs to no wanted network: of removed networks, or left by a crash. */
  async #removeOthers(plans: readonly ListenerPlan[]): Promise<void> {
    const { names } = this.#parts;
    const links = new Set(plans.map(({ link }) => link));
    const namespaces = new Set(plans.map(({ namespace }) => namespace));
    for (const link of hostLinks())
      if (link.startsWith(names.linkPrefix) && !links.has(link)) await removeListenerLink({ link });
    for (const namespace of namespaceNames())
      if (namespace.startsWith(names.namespacePrefix) && !namespaces.has(namespace))
        await removeListenerLink({ namespace });
    const networks = new Set(plans.map(({ network }) => network));
    for (const network of this.#made.keys()) if (!networks.has(network)) this.#made.delete(network);
  }

  /** `verify`: a port that was recreated under the old name has no owner until it was looked up. */
  #firewallListener(plan: ListenerPlan, verify: boolean): FirewallListener {
    const { network, bridge, link, reserved, attachments } = plan;
    const guests = attachments.flatMap((attachment) =>
      this.#parts.memory
        .portsOf(network, attachment)
        .filter(({ port, ifindex }) => !verify || portOf(bridge, port)?.ifindex === ifindex)
        .map(({ port }) => ({ port, addresses: attachment.addresses })),
    );
    return { link, reserved, guests };
  }

  #noteLost(plans: readonly ListenerPlan[]): void {
    const { memory, log } = this.#parts;
    const lost = new Set<string>();
    for (const { network, bridge, attachments } of plans) {
      for (const attachment of attachments) {
        const { containerId, interface: name } = attachment;
        const key = `${network} ${containerId} ${name}`;
        if (memory.portsOf(network, attachment).length > 0) continue;
        lost.add(key);
        if (!this.#lost.has(key))
          log.warn(
            { network, bridge, containerId, interface: name },
            "no port of the bridge found; it gets no metadata",
          );
      }
    }
    this.#lost.clear();
    for (const key of lost) this.#lost.add(key);
  }

  #noteProblems(failed: ReadonlyMap<string, string>): void {
    for (const [network, problem] of failed) {
      if (this.#problems.get(network) !== problem)
        this.#parts.log.error({ network, problem }, "no metadata for a network");
    }
    this.#problems.clear();
    for (const [network, problem] of failed) this.#problems.set(network, problem);
  }
}

function sameLink(one: ListenerPlan, other: ListenerPlan): boolean {
  return isDeepStrictEqual({ ...one, attachments: [] }, { ...other, attachments: [] });
}

function stateOf(network: string, problem: string | undefined): ListenerState {
  return problem === undefined ? { network, state: "up" } : { network, state: "failed", problem };
}

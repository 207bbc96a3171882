import type { ListenerPlan } from "../kernel/plan.ts";
import { run } from "../kernel/run.ts";
import { namespacePath } from "../kernel/sysfs.ts";
import type { Haproxy, ReloadOutcome } from "./haproxy.ts";
import { type HaproxyPlan, haproxyText } from "./haproxy-text.ts";

/** haproxy as a set of networks: lets it serve those that it can, and reports the others. */
export class Frontends {
  readonly #haproxy: Haproxy;
  readonly #settings: Omit<HaproxyPlan, "listeners">;
  readonly #reloaded: (outcome: ReloadOutcome) => void;
  /** Networks whose socket was seen. */
  readonly #listening = new Set<string>();

  constructor(
    haproxy: Haproxy,
    settings: Omit<HaproxyPlan, "listeners">,
    reloaded: (outcome: ReloadOutcome) => void,
  ) {
    this.#haproxy = haproxy;
    this.#settings = settings;
    this.#reloaded = reloaded;
  }

  /** The network's namespace may be another one now. */
  recheck(network: string): void {
    this.#listening.delete(network);
  }

  /** Resolves with the networks that are not served, and why. `again`: every socket is checked. */
  async serve(plans: readonly ListenerPlan[], again: boolean): Promise<ReadonlyMap<string, string>> {
    if (again || !this.#haproxy.alive) this.#listening.clear();
    const names = new Set(plans.map(({ network }) => network));
    for (const network of this.#listening) if (!names.has(network)) this.#listening.delete(network);
    const { usable, problems } = await this.#usable(plans);
    if (usable.length === 0) {
      if (this.#haproxy.wanted) await this.#haproxy.stop();
      return problems;
    }
    let failure = await this.#load(usable);
    const deaf = failure === null ? await this.#deaf(usable) : [];
    if (deaf.length > 0) {
      // A reload hands sockets on by address and name of the namespace: that of a namespace that is gone must first be
      // let go.
      await this.#load(usable.filter((plan) => !deaf.includes(plan)));
      failure = await this.#load(usable, true);
      await this.#deaf(deaf);
    }
    for (const { network } of usable) {
      if (!this.#listening.has(network))
        problems.set(network, failure ?? "haproxy does not listen in its namespace");
    }
    return problems;
  }

  async #usable(plans: readonly ListenerPlan[]) {
    const problems = new Map<string, string>();
    const text = this.#text(plans);
    if (plans.length === 0 || this.#haproxy.runsWith(text)) return { usable: plans, problems };
    const problem = await this.#haproxy.check(text);
    if (problem === null) return { usable: plans, problems };
    this.#reloaded("refused");
    for (const plan of plans) {
      const own = plans.length === 1 ? problem : await this.#haproxy.check(this.#text([plan]));
      if (own !== null) problems.set(plan.network, own);
    }
    // Each is valid by itself: then it is unknown which one to leave out.
    if (problems.size === 0) for (const { network } of plans) problems.set(network, problem);
    return { usable: plans.filter(({ network }) => !problems.has(network)), problems };
  }

  /** Why haproxy does not accept these; null: it does. */
  async #load(plans: readonly ListenerPlan[], again = false): Promise<string | null> {
    if (plans.length === 0) {
      await this.#haproxy.stop();
      return null;
    }
    const { outcome, problem } = await this.#haproxy.serve(this.#text(plans), again);
    if (outcome !== "unchanged") this.#reloaded(outcome);
    return problem ?? null;
  }

  async #deaf(plans: readonly ListenerPlan[]): Promise<readonly ListenerPlan[]> {
    const deaf: ListenerPlan[] = [];
    for (const plan of plans) {
      if (this.#listening.has(plan.network) || (await listens(plan.namespace)))
        this.#listening.add(plan.network);
      else deaf.push(plan);
    }
    return deaf;
  }

  #text(plans: readonly ListenerPlan[]): string {
    return haproxyText({ ...this.#settings, listeners: plans });
  }
}

/** Whether a socket listens on 169.254.169.254:80 in the namespace. The kernel prints addresses in host byte order. */
async function listens(namespace: string): Promise<boolean> {
  const shown = await run("nsenter", [`--net=${namespacePath(namespace)}`, "cat", "/proc/net/tcp"]);
  return /: (FEA9FEA9|A9FEA9FE):0050 [0-9A-F:]+ 0A /.test(shown.stdout);
}

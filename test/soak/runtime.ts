import { type CniAnswer, runShim } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { cniArgs } from "../harness/node.ts";
import { pause } from "../harness/wait.ts";
import type { Network } from "../harness/world/network.ts";
import type { Gate } from "./gate.ts";
import type { Answered, Ledger } from "./ledger.ts";
import type { SoakNode } from "./soak-node.ts";
import type { Tally } from "./tally.ts";

const TRY_AGAIN = 11;
const FULL = "no free address";
/** Pauses before another sandbox, which grow as a kubelet's do. */
const AGAIN_MS = { from: 1_000, to: 8_000 };

/** A container that runs: its network namespace, and the interface that its ADD made. */
export interface Sandbox {
  readonly node: SoakNode;
  readonly pod: KubeObject;
  readonly network: Network;
  readonly container: string;
  readonly namespace: string;
  readonly ifname: string;
  /** The CNI result of its ADD. */
  readonly result: object;
  readonly ips: readonly string[];
}

/** What an interface is for. */
export interface Attaching {
  readonly network: Network;
  readonly ifname: string;
  /** UID of the claim whose addresses it has; null: they are the pod's. */
  readonly claim: string | null;
}

/** The container runtimes of all nodes: real namespaces, attached by the real bridge plugin, which runs ours. */
export class Runtime {
  readonly #nodes: ReadonlyMap<string, SoakNode>;
  readonly #ledger: Ledger;
  readonly #tally: Tally;
  readonly #gate: Gate;
  /** What waits for its ADD, and the last refusal. */
  readonly waiting = new Map<string, string>();
  /** By container. */
  readonly #namespaces = new Map<string, string>();
  #containers = 0;

  constructor(
    nodes: readonly SoakNode[],
    parts: { readonly ledger: Ledger; readonly tally: Tally; readonly gate: Gate },
  ) {
    this.#nodes = new Map(nodes.map((node) => [node.name, node]));
    this.#ledger = parts.ledger;
    this.#tally = parts.tally;
    this.#gate = parts.gate;
  }

  /**
   * Sandbox after sandbox, as a kubelet makes them, until an ADD is answered. null: the network is full, and nobody
   * waits for it at the end of a run, or no longer than `isPatient` says.
   */
  async attach(pod: KubeObject, attaching: Attaching, isPatient: () => boolean = () => true): Promise<Sandbox | null> {
    const node = this.#nodes.get(pod.spec.nodeName) as SoakNode;
    const what = `${pod.metadata.name} on ${node.name}, ${attaching.network.name}`;
    try {
      for (let pauseMs = AGAIN_MS.from; ; pauseMs = Math.min(2 * pauseMs, AGAIN_MS.to)) {
        const tried = await this.#try(node, pod, attaching);
        if (typeof tried === "object") return tried;
        this.waiting.set(what, tried);
        if (tried.includes(FULL) && (this.#gate.isEnding || !isPatient())) return null;
        await pause(pauseMs);
      }
    } finally {
      this.waiting.delete(what);
    }
  }

  /** An exact repeat, through the plugin binary alone: answered the same, or not now. */
  async repeat(sandbox: Sandbox): Promise<void> {
    const { node, container, namespace, ifname, network } = sandbox;
    const { socket, spool } = node.node.daemon;
    const answer = await runShim("ADD", container, {
      ...{ socket, spool, ifname, config: network.config, netns: netnsOf(namespace) },
      args: cniArgs(sandbox.pod, container),
    });
    if (answer.code !== 0) return void this.#refused("repeated ADD", sandbox, answer);
    const ips = ipsIn(answer.json());
    if (ips.join() !== sandbox.ips.join())
      this.#ledger.violate(
        `the repeated ADD of ${container} was answered ${ips.join(", ")}, before: ${sandbox.ips.join(", ")}`,
      );
  }

  /** CHECK of something that runs. */
  async check(sandbox: Sandbox): Promise<void> {
    const config = { ...JSON.parse(sandbox.network.config), prevResult: sandbox.result };
    const answer = await this.#cni("CHECK", sandbox, config);
    if (answer.code !== 0) this.#refused("CHECK", sandbox, answer);
  }

  /** The container ends: its addresses may be given to others from here on. */
  ending({ container, ifname }: Sandbox): void {
    this.#ledger.ending(container, ifname);
  }

  /** DEL, which always succeeds, and the namespace goes. `times`: a runtime may repeat it. */
  async remove(sandbox: Sandbox, times = 1): Promise<void> {
    this.ending(sandbox);
    for (let sent = 0; sent < times; sent += 1) await this.#del(sandbox);
    await this.vanish(sandbox);
  }

  /** The namespace goes and no DEL comes. */
  async vanish(sandbox: Sandbox): Promise<void> {
    this.ending(sandbox);
    this.#namespaces.delete(sandbox.container);
    await sandbox.node.containers.destroy(sandbox.namespace);
  }

  /** What is wrong with the addresses that the kernel has on the interfaces of all that lives. */
  async inKernel(): Promise<string[]> {
    const wrong: string[] = [];
    const holders = new Map<string, Answered>();
    for (const one of this.#ledger.living) {
      const { container, ifname, network, owner, node } = one;
      const namespace = this.#namespaces.get(container) as string;
      const has = await (this.#nodes.get(node) as SoakNode).containers.kernelAddresses(namespace, ifname);
      if ([...has].sort().join() !== [...one.ips].sort().join())
        wrong.push(`${container} has ${has.join(", ")}, and was answered ${one.ips.join(", ")}`);
      for (const ip of has) {
        const other = holders.get(`${network} ${ip}`);
        if (other !== undefined && other.owner !== owner)
          wrong.push(`${ip} of ${network} is in ${container} and in ${other.container}`);
        holders.set(`${network} ${ip}`, one);
      }
    }
    return wrong;
  }

  /** The sandbox, or why there is none. */
  async #try(node: SoakNode, pod: KubeObject, { network, ifname, claim }: Attaching): Promise<Sandbox | string> {
    this.#containers += 1;
    const container = `sandbox-${this.#containers}-${pod.metadata.name}`;
    const namespace = await node.containers.create(String(this.#containers));
    this.#namespaces.set(container, namespace);
    const made = { node, pod, network, container, namespace, ifname, result: {}, ips: [] };
    const answer = await this.#cni("ADD", made, JSON.parse(network.config));
    if (answer.code !== 0) {
      const said = this.#refused("ADD", made, answer);
      await this.remove(made);
      return said;
    }
    const result = answer.json();
    const sandbox: Sandbox = { ...made, result, ips: ipsIn(result) };
    this.#ledger.answered({
      ...{ network: network.name, ips: sandbox.ips, node: node.name, container, ifname },
      ...{ owner: claim ?? pod.metadata.uid, isClaim: claim !== null },
    });
    return sandbox;
  }

  async #del(sandbox: Sandbox): Promise<void> {
    const answer = await this.#cni("DEL", sandbox, JSON.parse(sandbox.network.config));
    if (answer.code !== 0) this.#ledger.violate(`DEL of ${sandbox.container}: ${answer.stdout}${answer.stderr}`);
  }

  async #cni(verb: string, sandbox: Sandbox, config: Readonly<Record<string, unknown>>): Promise<CniAnswer> {
    const { node, container, namespace, ifname, pod } = sandbox;
    const startMs = performance.now();
    const args = cniArgs(pod, container);
    const answer = await node.containers.cni(verb, container, namespace, config, args, ifname);
    this.#tally.served(verb, answer.code === 0, performance.now() - startMs);
    return answer;
  }

  /** Counts a refusal and returns its message. Any other than "try again" is a violation. */
  #refused(verb: string, { container }: Sandbox, answer: CniAnswer): string {
    const { code, msg } = errorIn(answer);
    this.#tally.refused(verb, msg);
    if (code !== TRY_AGAIN) this.#ledger.violate(`${verb} of ${container}: ${answer.stdout}${answer.stderr}`);
    return msg;
  }
}

function netnsOf(namespace: string): string {
  return `/var/run/netns/${namespace}`;
}

function ipsIn(result: { readonly ips?: readonly { readonly address: string }[] }): string[] {
  return (result.ips ?? []).map(({ address }) => address);
}

function errorIn(answer: CniAnswer): { readonly code: number | null; readonly msg: string } {
  try {
    const { code, msg } = answer.json();
    return { code, msg: String(msg) };
  } catch {
    return { code: null, msg: `${answer.stdout}${answer.stderr}` };
  }
}

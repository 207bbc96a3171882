import { sleep } from "../../../platform/time.ts";
import type { KubeObject } from "../../harness/kube-fake/objects.ts";
import { hashOf, numberOf } from "../engine/chance.ts";
import type { Interface, World } from "../world.ts";
import type { ProcessClock } from "./clocks.ts";
import { argsOf, configOf, ipsOf, type PluginConfig, primaryOf, type Selected, selectionOf } from "./multus.ts";
import { OTHER_TYPE, type OtherPlugins } from "./other-plugins.ts";
import { type CniCall, type CniOutcome, execute, type PluginSurroundings } from "./plugin-binary.ts";

export const PODS = "/pods";
const NADS = "k8s.cni.cncf.io/network-attachment-definitions";
const CLAIMS = "k8s.cni.cncf.io/ipamclaims";

/** The pod of a sandbox. */
export interface SandboxPod {
  readonly namespace: string;
  readonly name: string;
  /** As the kubelet gives it to the runtime: of a static pod it is not that of its object in the API. */
  readonly uid: string;
}

/** An interface that the runtime has asked for. */
export interface Attachment {
  readonly selected: Selected;
  readonly config: PluginConfig;
  readonly mac: string;
  readonly iface: Interface;
  /** What was answered; null: nothing yet, or a refusal. */
  ips: readonly string[] | null;
  isUp: boolean;
}

export interface Sandbox {
  readonly id: string;
  /** Of keys of faults. */
  readonly key: string;
  readonly netns: string;
  /** Nothing but its DEL tells of its end. */
  isUnseen: boolean;
  readonly pod: SandboxPod;
  readonly attachments: Attachment[];
  state: "creating" | "ready" | "dead";
}

/** What is remembered of a sandbox so that it can be ended after a reboot. */
export type FormerSandbox = Pick<Sandbox, "id" | "key" | "netns" | "pod" | "attachments">;

export interface RuntimeParts {
  readonly node: string;
  readonly world: World;
  readonly plugin: PluginSurroundings;
  /** Interfaces that are up in the whole cluster, by their claim: `namespace/name`. */
  readonly claimsInUse: Map<string, number>;
  readonly others: OtherPlugins;
  /** Of the processes of this boot. */
  readonly clock: ProcessClock;
}

/** The container runtime of one boot, with Multus: sandboxes, their namespaces, and the CNI calls for them. */
export class Runtime {
  readonly sandboxes = new Map<string, Sandbox>();
  /** See Machine. */
  readonly interfaces = new Map<Interface, readonly string[]>();
  readonly #parts: RuntimeParts;
  readonly #namespaces: Map<string, string>;
  /** Container IDs of sandboxes that are gone. */
  readonly #formerIds: string[] = [];
  readonly #names = new Map<string, number>();
  #inode = 4_026_532_000;

  /** `namespaces`: path → identity; of this boot. */
  constructor(parts: RuntimeParts, namespaces: Map<string, string>) {
    this.#parts = parts;
    this.#namespaces = namespaces;
  }

  /** `bootNumber` makes keys unique over boots. */
  create(pod: SandboxPod, bootNumber: number): Sandbox {
    const { node, world } = this.#parts;
    const name = `${pod.namespace}/${pod.name}`;
    const count = (this.#names.get(name) ?? 0) + 1;
    this.#names.set(name, count);
    const key = `${node} ${bootNumber} ${name}#${count}`;
    let id = hexOf(world.seed, key);
    const former = this.#formerIds.at(-1);
    if (former !== undefined && !this.sandboxes.has(former) && world.faults.decide(`${key} id again`, 0.05)) {
      id = former;
      world.counts.add("cni.id-again");
    }
    this.#inode += 1;
    const netns = `/var/run/netns/cni-${hexOf(world.seed, `${key} netns`).slice(0, 12)}`;
    // Neither the plugin binary nor the daemon can see it, as with some runtimes of virtual machines.
    if (world.faults.decide(`${key} netns unseen`, 0.02)) world.counts.add("cni.netns-unseen");
    else this.#namespaces.set(netns, `4:${this.#inode}`);
    const isUnseen = !this.#namespaces.has(netns);
    const sandbox: Sandbox = { id, key, netns, isUnseen, pod, attachments: [], state: "creating" };
    this.sandboxes.set(id, sandbox);
    return sandbox;
  }

  /** Adds the interfaces that the pod selects. A text: why the sandbox failed. */
  async setUp(sandbox: Sandbox): Promise<string | null> {
    const { world } = this.#parts;
    const { namespace, name, uid } = sandbox.pod;
    const object = world.cluster.etcd.get(PODS, `${namespace}/${name}`);
    if (object === null || !isPod(object, uid)) return "the pod is not in the API";
    let selection: Selected[];
    try {
      selection = [...primaryOf(object), ...selectionOf(object)];
    } catch (error) {
      return `Multus does not understand the annotation: ${(error as Error).message}`;
    }
    for (const selected of selection) {
      if (sandbox.state === "dead") return "the sandbox is gone";
      const problem = await this.#attach(sandbox, selected);
      if (problem !== null) return problem;
    }
    if (sandbox.state === "dead") return "the sandbox is gone";
    sandbox.state = "ready";
    return null;
  }

  /** Ends a sandbox: DEL for each of its interfaces, then its namespace goes. */
  async tearDown(sandbox: FormerSandbox & { state?: Sandbox["state"] }): Promise<void> {
    const { world } = this.#parts;
    const { key } = sandbox;
    sandbox.state = "dead";
    const isEmpty = !this.#namespaces.has(sandbox.netns);
    for (const attachment of [...sandbox.attachments].reverse()) {
      this.#down(attachment);
      const times = world.faults.decide(`${key} ${attachment.iface.ifname} DEL twice`, 0.05) ? 2 : 1;
      if (times > 1) world.counts.add("cni.del.twice");
      for (let i = 0; i < times; i += 1) await this.#del(sandbox, attachment, isEmpty);
    }
    this.forget(sandbox);
  }

  /** The sandbox's processes and namespace are gone, and nobody was told. */
  vanish(sandbox: Sandbox): void {
    sandbox.state = "dead";
    for (const attachment of sandbox.attachments) this.#down(attachment);
    this.#namespaces.delete(sandbox.netns);
  }

  /** It does not exist any more. */
  forget(sandbox: FormerSandbox): void {
    this.#namespaces.delete(sandbox.netns);
    if (this.sandboxes.get(sandbox.id) === sandbox) this.sandboxes.delete(sandbox.id);
    this.#formerIds.push(sandbox.id);
    if (this.#formerIds.length > 20) this.#formerIds.shift();
  }

  /** ADD once more of an interface that is up, exactly as before. */
  async repeat(sandbox: Sandbox, attachment: Attachment): Promise<void> {
    if (attachment.config.ipamType === OTHER_TYPE) return;
    this.#parts.world.counts.add("cni.add.repeat");
    await this.#add(sandbox, attachment);
  }

  check(sandbox: Sandbox, attachment: Attachment): Promise<CniOutcome> {
    this.#parts.world.counts.add("cni.check");
    const { text } = attachment.config;
    const ips = (attachment.ips ?? []).map((address) => ({ address }));
    const prevResult = { cniVersion: attachment.config.cniVersion, ips, dns: {} };
    return this.call(sandbox, attachment, {
      command: "CHECK",
      config: withKey(text, "prevResult", prevResult),
    });
  }

  /** GC of one network, with everything that lives. */
  async collect(config: PluginConfig): Promise<CniOutcome> {
    const live = [...this.sandboxes.values()].filter(({ state }) => state !== "dead");
    const valid = live.flatMap(({ id, attachments }) =>
      attachments.map(({ selected: { ifname } }) => ({ containerID: id, ifname })),
    );
    this.#parts.world.counts.add("cni.gc");
    return execute(this.#parts.plugin, {
      command: "GC",
      containerId: "",
      netns: "",
      ifname: "",
      args: "",
      config: withKey(config.text, "cni.dev/valid-attachments", valid),
    });
  }

  status(config: PluginConfig): Promise<CniOutcome> {
    this.#parts.world.counts.add("cni.status");
    const { text } = config;
    return execute(this.#parts.plugin, { ...NOBODY, command: "STATUS", config: text });
  }

  /** Attachments of ours of sandboxes that live, in the order of their making. */
  *living(): Generator<{ readonly sandbox: Sandbox; readonly attachment: Attachment }> {
    for (const sandbox of this.sandboxes.values())
      for (const attachment of sandbox.attachments)
        if (attachment.isUp && attachment.config.ipamType !== OTHER_TYPE) yield { sandbox, attachment };
  }

  async call(
    sandbox: FormerSandbox,
    { iface, config }: Attachment,
    {
      command,
      config: text,
      netns,
      slowMs = 0,
    }: { command: CniCall["command"]; config?: string; netns?: string; slowMs?: number },
  ): Promise<CniOutcome> {
    const { pod, id } = sandbox;
    const call = {
      command,
      containerId: id,
      netns: netns ?? sandbox.netns,
      ifname: iface.ifname,
      args: argsOf(pod, id),
      config: text ?? config.text,
    };
    const { world, node } = this.#parts;
    const who = `runtime ${node}`;
    const what = `${command} ${sandbox.key} ${iface.ifname}`;
    world.story.detail(who, () => `${what} of ${id.slice(0, 8)}`);
    const outcome = await execute(this.#parts.plugin, call, slowMs);
    world.story.detail(who, () => `${what}: ${JSON.stringify(outcome.ok ? outcome.result : outcome.error)}`);
    return outcome;
  }

  async #attach(sandbox: Sandbox, selected: Selected): Promise<string | null> {
    const { world, node, clock, others } = this.#parts;
    const { namespace, name } = selected;
    const nad = namespace === "" ? others.fileOf(name) : world.cluster.etcd.get(NADS, `${namespace}/${name}`);
    if (nad === null) return `there is no NAD ${namespace}/${name}`;
    let config: PluginConfig;
    try {
      config = configOf(nad);
    } catch (error) {
      return (error as Error).message;
    }
    const isOther = config.ipamType === OTHER_TYPE;
    if (config.ipamType !== "holdfast-ipam" && !isOther) return `there is no plugin ${config.ipamType}`;
    const { pod, id } = sandbox;
    const attachment: Attachment = {
      selected,
      config,
      mac: selected.mac ?? macOf(id, selected.ifname),
      iface: {
        node,
        containerId: id,
        ifname: selected.ifname,
        network: config.network,
        pod: { namespace: pod.namespace, name: pod.name, uid: pod.uid },
      },
      ips: null,
      isUp: false,
    };
    // As Multus' cache: from here on a DEL is pending for it.
    sandbox.attachments.push(attachment);
    await sleep(clock, 2 + 10 * world.faults.number(`${sandbox.key} ${selected.ifname} exec`));
    // The plugin that makes the interface enters the namespace before it asks for an address.
    if (!this.#hasNamespace(sandbox)) return "the namespace is gone";
    return isOther ? this.#addByOther(attachment) : this.#add(sandbox, attachment);
  }

  #hasNamespace(sandbox: Sandbox): boolean {
    return sandbox.isUnseen ? this.sandboxes.get(sandbox.id) === sandbox : this.#namespaces.has(sandbox.netns);
  }

  #addByOther(attachment: Attachment): string | null {
    const { iface, config } = attachment;
    const ip = this.#parts.others.give(config, iface);
    if (ip === null) return "the range is full";
    attachment.ips = [ip];
    attachment.isUp = true;
    return null;
  }

  async #add(sandbox: Sandbox, attachment: Attachment): Promise<string | null> {
    const { world, node } = this.#parts;
    const { iface, selected } = attachment;
    const kind = this.#kindOf(sandbox, attachment);
    const outcome = await this.#askForAddress(sandbox, attachment);
    const who = `kubelet ${node}`;
    const pod = `${iface.pod.namespace}/${iface.pod.name} ${selected.ifname}`;
    if (!outcome.ok) {
      const { code, msg } = outcome.error;
      world.counts.add(`add.refused.${code}`);
      world.story.tell(who, `ADD ${pod} on ${iface.network}: refused, ${code} ${msg}`);
      world.oracle.refused(iface, code, msg);
      return msg;
    }
    // A DEL has begun meanwhile: nobody uses the answer.
    if (sandbox.state === "dead") return "the sandbox is gone";
    attachment.ips = ipsOf(outcome.result);
    if (!attachment.isUp) this.#countClaim(attachment, 1);
    attachment.isUp = true;
    world.counts.add(`add.answered.${kind}`);
    world.story.tell(who, `ADD ${pod} on ${iface.network}: ${attachment.ips.join(" ")}`);
    this.interfaces.set(iface, attachment.ips);
    // Whoever has them from another plugin had them before.
    this.#parts.others.given(iface.network, attachment.ips);
    world.oracle.up(iface, attachment.ips);
    return null;
  }

  async #del(sandbox: FormerSandbox, attachment: Attachment, isEmpty: boolean): Promise<void> {
    const { world, node } = this.#parts;
    const { iface, selected } = attachment;
    if (attachment.config.ipamType === OTHER_TYPE) return;
    const bare = world.faults.decide(`${sandbox.key} ${selected.ifname} DEL bare`, 0.03);
    world.counts.add("cni.del");
    world.story.tell(
      `kubelet ${node}`,
      `DEL ${iface.pod.namespace}/${iface.pod.name} ${selected.ifname} on ${iface.network}`,
    );
    await this.call(sandbox, attachment, {
      command: "DEL",
      ...(bare ? { config: "{}" } : {}),
      ...(isEmpty ? { netns: "" } : {}),
    });
    world.oracle.deleted(iface);
  }

  /** Now and then the plugin binary is slow, and the runtime gives up while its request is still under way. */
  async #askForAddress(sandbox: Sandbox, attachment: Attachment): Promise<CniOutcome> {
    const { world, clock } = this.#parts;
    const key = `${sandbox.key} ${attachment.iface.ifname} ADD late`;
    if (attachment.isUp || !world.faults.decide(key, 0.03)) return this.call(sandbox, attachment, { command: "ADD" });
    world.counts.add("cni.add.late");
    const slowMs = 200 + 6_000 * world.faults.number(`${key} by`);
    const late = this.call(sandbox, attachment, { command: "ADD", slowMs });
    const gaveUp = sleep(clock, slowMs * 2 * world.faults.number(`${key} patience`)).then(() => GAVE_UP);
    const outcome = await Promise.race([late, gaveUp]);
    // The daemon may read the request when the namespace is gone.
    if (outcome === GAVE_UP) sandbox.isUnseen = true;
    return outcome;
  }

  #down(attachment: Attachment): void {
    if (!attachment.isUp) return;
    attachment.isUp = false;
    if (attachment.config.ipamType === OTHER_TYPE) {
      this.#parts.others.take(attachment.iface.network, attachment.ips?.[0] ?? "");
      return;
    }
    this.#countClaim(attachment, -1);
    this.interfaces.delete(attachment.iface);
    this.#parts.world.oracle.down(attachment.iface);
  }

  #countClaim({ selected: { claim }, iface }: Attachment, change: number): void {
    if (claim === null) return;
    const { claimsInUse } = this.#parts;
    const key = `${iface.pod.namespace}/${claim}`;
    claimsInUse.set(key, (claimsInUse.get(key) ?? 0) + change);
  }

  #kindOf(sandbox: Sandbox, { selected, isUp }: Attachment): string {
    if (isUp) return "repeat";
    const { pod } = sandbox;
    if (selected.claim === null) return pod.uid.includes("-") ? "pod" : "static";
    const key = `${pod.namespace}/${selected.claim}`;
    if ((this.#parts.claimsInUse.get(key) ?? 0) > 0) return "claim-second";
    const claim: KubeObject = this.#parts.world.cluster.etcd.get(CLAIMS, key);
    return claim?.status?.ips?.length > 0 ? "claim-again" : "claim-first";
  }
}

/** A static pod has the kubelet's UID here, and its mirror names it. */
function isPod({ metadata }: KubeObject, uid: string): boolean {
  return metadata.uid === uid || metadata.annotations?.["kubernetes.io/config.mirror"] === uid;
}

const GAVE_UP: CniOutcome = {
  ok: false,
  error: { cniVersion: "1.1.0", code: 11, msg: "the runtime gave up", details: "" },
};
const NOBODY = { containerId: "", netns: "", ifname: "", args: "" };

function withKey(text: string, key: string, value: unknown): string {
  return JSON.stringify({ ...JSON.parse(text), [key]: value });
}

/** 64 hexadecimal digits. */
function hexOf(seed: number, name: string): string {
  let hex = "";
  for (let i = 0; hex.length < 64; i += 1)
    hex += Math.floor(numberOf(seed, `${name} ${i}`) * 2 ** 32)
      .toString(16)
      .padStart(8, "0");
  return hex;
}

function macOf(containerId: string, ifname: string): string {
  const hash = hashOf(`${containerId} ${ifname}`).toString(16).padStart(8, "0");
  return `02:00:${hash.slice(0, 2)}:${hash.slice(2, 4)}:${hash.slice(4, 6)}:${hash.slice(6, 8)}`;
}

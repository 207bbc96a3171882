import type { Log } from "../platform/log.ts";
import { PeriodicTask } from "../platform/periodic-task.ts";
import type { Clock, Timer } from "../platform/time.ts";
import type { HostSideLink } from "./drivers/driver.ts";
import { type Attachment, guestKey, type PodPort, podOf } from "./guest.ts";
import { isLinkName, linksIn } from "./kernel/links.ts";
import { hostLink, OWN_NAMESPACE } from "./kernel/sysfs.ts";
import type { OvsPort, OvsPorts } from "./ovs/ovs-ports.ts";
import type { NotFound } from "./port-lookup.ts";
import type { PortMemory } from "./port-memory.ts";
import type { WantedPorts } from "./ports/wire.ts";

/** Changes of the database come in groups, ms. */
const SETTLE_MS = 20;
/** How long a search waits until the switch has opened a link that was added a moment ago, ms. */
const OPEN_MS_MAX = 300;
/** How long the database may be away before that is said, ms. */
const AWAY_MS = 5_000;

export interface OvnPodsParts {
  /** null: it is not to be looked for. */
  readonly ovs: OvsPorts | null;
  readonly memory: Pick<PortMemory, "entries">;
  readonly clock: Clock;
  readonly log: Log;
}

/** What is wanted on a node: `ports` also has those of its pods. */
export interface WantedHere extends WantedPorts {
  readonly ports: readonly Attachment[];
}

/** This node's pods on networks of OVN-Kubernetes served here, by its rows in Open vSwitch; none is written. */
export class OvnPods {
  readonly #parts: OvnPodsParts;
  #networks: ReadonlySet<string> = new Set();
  /** The keys of those that were wanted last. */
  #given = "";
  /** Was the database read since the start of this process? */
  #isRead = false;
  #unfollow: (() => void) | null = null;
  #looking: PeriodicTask | null = null;
  #away: Timer | null = null;

  constructor(parts: OvnPodsParts) {
    this.#parts = parts;
  }

  /** What the daemon wants, and the pods of the networks that it names. */
  among(wanted: WantedPorts): WantedHere {
    this.#networks = new Set(wanted.ovnNetworks);
    this.#noteAway();
    const pods = this.#pods();
    this.#given = keysOf(pods);
    return pods.length === 0 ? wanted : { ...wanted, ports: [...wanted.ports, ...pods] };
  }

  /** Calls back when pods have come or gone, or are not what they were. */
  watch(changed: () => void): void {
    const { ovs, clock } = this.#parts;
    if (ovs === null) return;
    const looking = new PeriodicTask({
      ...{ clock, settleMs: SETTLE_MS },
      work: () => {
        if (keysOf(this.#pods()) !== this.#given) changed();
      },
    });
    looking.start();
    this.#looking = looking;
    this.#unfollow = ovs.onChange(() => {
      this.#isRead ||= ovs.connected;
      this.#noteAway();
      looking.trigger();
    });
  }

  close(): void {
    this.#unfollow?.();
    void this.#looking?.stop();
    this.#away?.cancel();
  }

  /** The link that a pod's row names, when the switch and the node's own namespace agree that it is there. */
  async find({ link, row }: PodPort): Promise<HostSideLink | NotFound> {
    const { ovs } = this.#parts;
    if (ovs === null) return pending("Open vSwitch's database is not to be read (ovsdbSocket)");
    const now = () => {
      const port = ovs.ports().get(link);
      return port?.interfaceUuid === row ? port : null;
    };
    const isOpen = () => {
      const port = now();
      return port === null || whyNot(port) === null ? true : null;
    };
    await ovs.until(isOpen, OPEN_MS_MAX);
    const port = now();
    if (port === null) return pending(`Open vSwitch has no port ${link} any more`);
    const why = whyNot(port);
    if (why !== null) return why;
    const shown = await linksIn(OWN_NAMESPACE, link);
    if (shown.kind === "unreadable") return pending(`${link} cannot be looked at: ${shown.why}`);
    const [found] = shown.links;
    if (found?.ifindex !== port.ifindex) return pending(`${link} is being created again`);
    return { name: link, ifindex: found.ifindex, kind: found.linkinfo?.info_kind ?? "" };
  }

  /** As the rows have them. Those of ports that are known stay when nothing was ever read: that is no evidence. */
  #pods(): readonly Attachment[] {
    const { ovs, memory } = this.#parts;
    if (ovs === null || this.#networks.size === 0) return [];
    this.#isRead ||= ovs.connected;
    const all = this.#isRead ? [...ovs.ports().values()].map(podAt) : [...memory.entries()].map(([key]) => podOf(key));
    return all.filter((one): one is Required<Attachment> => one !== null && this.#networks.has(one.network));
  }

  #noteAway(): void {
    const { ovs, clock, log } = this.#parts;
    if (this.#networks.size === 0 || ovs?.connected === true) {
      this.#away?.cancel();
      this.#away = null;
      return;
    }
    this.#away ??= clock.timer(AWAY_MS, () => {
      const networks = [...this.#networks];
      log.warn({ networks }, "Open vSwitch's database cannot be read: new guests of OVN-Kubernetes get no metadata");
    });
  }
}

/** The pod behind a port; null: none, or one on the default network. */
function podAt({ link, interfaceUuid: row, externalIds: ids }: OvsPort): Required<Attachment> | null {
  const [network, uid, containerId] = ["k8s.ovn.org/network", "iface-id-ver", "sandbox"].map((id) => ids.get(id));
  if (!network || !uid || !containerId) return null;
  const addresses = (ids.get("ip_addresses") ?? "").split(",").map((one) => one.trim().replace(/\/.*/, ""));
  return {
    network,
    containerId,
    interface: ids.get("pod-if-name") ?? ids.get("k8s.ovn.org/nad") ?? "",
    netns: "",
    addresses: addresses.filter((one) => one !== ""),
    mac: ids.get("attached_mac") ?? null,
    pod: { uid, link, row },
  };
}

/** Why a row's link cannot be a guest's port now; null: it can. */
function whyNot({ link, type, ofport, ifindex, error }: OvsPort): NotFound | null {
  if (type !== "" && type !== "system")
    return never(`${link} is a port of the kind ${type}, which is no link of the node`);
  if (!isLinkName(link)) return never(`the link ${JSON.stringify(link)} has a name that cannot be used in rules`);
  const own = hostLink(link)?.ifindex;
  if (own === undefined) return pending(`there is no link ${link} on the node`);
  if (ofport === null) return pending(`Open vSwitch has not opened ${link}${error === null ? "" : `: ${error}`}`);
  if (ifindex !== own) return pending(`Open vSwitch has another link open than ${link}`);
  return null;
}

function keysOf(pods: readonly Attachment[]): string {
  return pods.map(guestKey).sort().join("\n");
}

function pending(problem: string): NotFound {
  return { kind: "pending", problem };
}

function never(problem: string): NotFound {
  return { kind: "final", problem };
}

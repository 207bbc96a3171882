import { run } from "../harness/daemon.ts";
import { NamespaceGuest } from "../harness/metadata/guest.ts";
import { mustRun } from "../network/containers.ts";
import type { AttachedGuest, MetadataNode } from "./metadata-node.ts";

type Config = ReturnType<MetadataNode["network"]>;

interface VmOfTest {
  readonly name: string;
  readonly uid: string;
  readonly mac: string;
}

/** The end of the guest's cable in its pod. */
const CABLE = "cable0";

/**
 * A VM in a namespace of its own, whose cable leads into a pod as with KubeVirt's bridge binding: the pod's interface
 * and the cable are ports of a bridge in there, and the guest has the first pod's address, and the MAC. It migrates by
 * a second pod, into which the cable moves; the guest's kernel and its connections stay what they are. Each pod has a
 * claim of its own of the same VM: without a cluster no two pods share one.
 */
export class MigratingVm {
  readonly guest: NamespaceGuest;
  readonly #node: MetadataNode;
  readonly #config: Config;
  readonly #of: VmOfTest;
  #pod: AttachedGuest;
  #turn = 0;

  private constructor(
    node: MetadataNode,
    made: { config: Config; of: VmOfTest; pod: AttachedGuest; guest: NamespaceGuest },
  ) {
    this.#node = node;
    this.#config = made.config;
    this.#of = made.of;
    this.#pod = made.pod;
    this.guest = made.guest;
  }

  static async start(node: MetadataNode, config: Config, of: VmOfTest): Promise<MigratingVm> {
    const { name, uid, mac } = of;
    const pod = await node.vm(`${name}-0`, config, uid, `;MAC=${mac}`);
    const namespace = await node.containers.create(`${name}-guest`);
    const cable = ["link", "add", "eth0", "address", mac, "type", "veth", "peer", "name", CABLE];
    await mustRun("ip", ["-n", namespace, ...cable, "netns", pod.namespace]);
    const vm = new MigratingVm(node, {
      config,
      of,
      pod,
      guest: new NamespaceGuest({ namespace, address: pod.address, mac }),
    });
    await vm.#plug(pod);
    await mustRun("ip", ["-n", namespace, "link", "set", "eth0", "up"]);
    await mustRun("ip", ["-n", namespace, "address", "add", `${pod.address}/24`, "dev", "eth0"]);
    await mustRun("ip", ["-n", namespace, "route", "add", "169.254.0.0/16", "dev", "eth0"]);
    return vm;
  }

  /** The second pod comes, the guest moves while `meanwhile` goes on, and the first pod goes. */
  async migrate(): Promise<void> {
    this.#turn += 1;
    const from = this.#pod;
    const { name, uid, mac } = this.#of;
    const to = await this.#node.vm(`${name}-${this.#turn}`, this.#config, uid, `;MAC=${mac}`);
    await mustRun("ip", ["-n", from.namespace, "link", "set", CABLE, "netns", to.namespace]);
    await this.#plug(to);
    this.#pod = to;
    await this.#node.end(from);
  }

  /** Makes the cable and the pod's interface ports of a bridge; the interface gives its address and MAC away. */
  async #plug({ namespace }: AttachedGuest): Promise<void> {
    const commands = [
      "address flush dev eth0",
      "link set eth0 address 02:00:00:00:ff:01",
      "link add k6t type bridge",
      "link set eth0 master k6t",
      `link set ${CABLE} master k6t up`,
      "link set k6t up",
    ];
    const { code, stderr } = await run("ip", ["-n", namespace, "-batch", "-"], {}, commands.join("\n"));
    if (code !== 0) throw new Error(`the pod ${namespace} cannot be set up: ${stderr}`);
  }
}

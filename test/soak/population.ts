import { Random } from "../faults/random.ts";
import type { KubeApi } from "../harness/kube-api.ts";
import { KubeVirt } from "../harness/kubevirt.ts";
import { configOf, NAMESPACE, type Network } from "../harness/world/network.ts";
import { mustRun } from "../network/containers.ts";
import { type GuestParts, SoakCrowd, SoakPod, SoakVm } from "./guests.ts";

/** By node. With eight nodes VMs and pods have most of the smaller network, and the crowd finds it full. */
const BY_NODE = { vms: 2.5, pods: 2, crowd: 1.75 };
const WAVE_MS = 45_000;

/** All guests of a run, on two networks. */
export class Population {
  readonly size: number;
  /** Fails when a guest cannot go on. */
  readonly gone: Promise<unknown>;
  #goneCount = 0;

  private constructor(guests: readonly { run(): Promise<void> }[]) {
    this.size = guests.length;
    this.gone = Promise.all(
      guests.map(async (guest) => {
        await guest.run();
        this.#goneCount += 1;
      }),
    );
  }

  get goneCount(): number {
    return this.#goneCount;
  }

  static async start(api: KubeApi, seed: number, parts: Omit<GuestParts, "kubevirt">): Promise<Population> {
    const kubevirt = new KubeVirt(api);
    const given: GuestParts = { ...parts, kubevirt };
    const tight = await network(kubevirt, "tight", "10.61.0.0/27");
    const roomy = await network(kubevirt, "roomy", "10.62.0.0/24,fd62::/64");
    const networkOf = (index: number) => (index % 2 === 0 ? tight : roomy);
    let made = 0;
    const some = <T>(byNode: number, make: (index: number, random: Random) => T): T[] =>
      Array.from({ length: Math.ceil(byNode * parts.nodes.length) }, (_, index) => {
        made += 1;
        return make(index, new Random(seed + made));
      });
    return new Population([
      ...some(BY_NODE.vms, (index, random) => new SoakVm(`vm-${index}`, networkOf(index), random, given)),
      ...some(BY_NODE.pods, (index, random) => new SoakPod(`pod-${index}`, networkOf(index), random, given)),
      ...some(BY_NODE.crowd, (index, random) => new SoakCrowd(WAVE_MS, `crowd-${index}`, tight, random, given)),
    ]);
  }
}

/** Its NAD, and a bridge that all nodes share: one segment. */
async function network(kubevirt: KubeVirt, name: string, subnets: string): Promise<Network> {
  const bridge = `br-${name}`;
  // With an address of its own: else it takes that of a port, each time another, and the plugin's CHECK complains.
  await mustRun("ip", ["link", "add", bridge, "address", "02:00:00:00:00:01", "type", "bridge"]);
  const config = configOf(name, { subnets, cooldownSeconds: 5 }, { bridge });
  await kubevirt.createNad(NAMESPACE, name, config);
  return { name, config };
}

import type { PortAddress } from "../kernel/port-address.ts";

/** What every guest asks: the address of OpenStack, EC2 and OVN-Kubernetes, and the one of IPv6. */
export const METADATA_IPV4 = "169.254.169.254";
export const METADATA_IPV6 = "fe80::a9fe:a9fe";

/**
 * How the frames of guests get from the ports of one kind of switch to the listener of this node, and its answers back.
 * A driver rewrites the destination of what a guest sends to 169.254.169.254 at one port to that port's address D, and
 * the source of the answers back; IPv6 likewise by the prefix that stands for D. It keeps no connections. Claims of
 * both addresses by anybody else are dropped at admitted ports, in both directions; fd00:ec2::254 too. Why the port and
 * not an address tells who asks: docs/decisions/0041.
 */
export interface DatapathDriver {
  readonly kind: "ingress" | "openflow" | "bridge";
  /** Tries on links of its own, which it takes away again, what this node's kernel or switch can do. */
  probe(): Promise<Probe>;
  /** null: another driver may take the link. Throws an Error for the operator when this one should and cannot now. */
  claim(link: HostSideLink): Promise<PortRef | null>;
  /**
   * Brings the datapath to exactly these ports, in one transaction. It compares with what it did last; `again`: with
   * what is really there, and changes only what differs. Resolves with the ports that could not be admitted, and why;
   * `repaired`: somebody else had changed what was there. `hurry`: when it aborts, a comparison may be given up. Throws
   * when nothing could be done.
   */
  sync(ports: readonly AdmittedPort[], again: boolean, hurry?: AbortSignal): Promise<SyncResult>;
  /** Begins to watch the datapath; `lost` is called when somebody may have changed what is ours, or a link went. */
  watch(lost: () => void): void;
  /** Leaves the datapath as it is. */
  close(): void;
  /**
   * Leaves only what drops questions to the service and claims of its addresses at these ports: nobody answers there
   * until the next `sync`, also without this process. `unlessThere`: does nothing where rules of an earlier process
   * are.
   */
  shut(ports: readonly AdmittedPort[], unlessThere: boolean): Promise<void>;
  /** Takes everything of this driver away, also what an earlier process left, and nothing else. */
  remove(): Promise<void>;
}

export type Probe =
  | {
      readonly ok: true /** What is missing, though it works: one sentence each. */;
      readonly notes: readonly string[];
    }
  | { readonly ok: false; readonly why: string };

export interface SyncResult {
  readonly failed: ReadonlyMap<PortAddress, string>;
  readonly repaired: boolean;
}

/** The end of a guest's interface that is in the node's own network namespace. */
export interface HostSideLink {
  readonly name: string;
  readonly ifindex: number;
  /** `veth`, `tun`, … */
  readonly kind: string;
}

/** Where a guest's frames come in. Another ifindex under the same name is another port. */
export interface PortRef {
  readonly driver: DatapathDriver["kind"];
  readonly link: string;
  readonly ifindex: number;
  /** Which way into the listener it uses: `main`, or one of a switch, such as `ovs:br-int`. Decides the block of D. */
  readonly door: string;
}

export interface AdmittedPort {
  readonly address: PortAddress;
  readonly port: PortRef;
  /** Of the guest; answers go to it. Lower case with colons. */
  readonly mac: string;
}

/**
 * The listener's namespace, as far as drivers need it. A door is a veth pair: `outer` on the node, which the driver
 * plugs into its switch (or into nothing), and an end in the namespace. The namespace takes only frames whose source
 * MAC is `secretMac`, which every driver sets: whoever finds a way to `outer` without our rules is not heard.
 */
export interface ListenerDoors {
  /** MAC that stands for the metadata service towards guests, as the answerer of ARP. The same on every node. */
  readonly serviceMac: string;
  /** Source MAC of frames for the listener: random, of this run directory, nowhere to be read by a guest. */
  readonly secretMac: string;
  /** MAC of every door's end in the namespace. */
  readonly doorMac: string;
  /** Destination of every answer before a driver has set the guest's: nobody has it, and no switch may look for it. */
  readonly nobodyMac: string;
  /** Makes the door if it is not there. */
  ensure(door: string): Promise<OpenDoor>;
  /** Removes a door that no port uses any more. */
  remove(door: string): Promise<void>;
}

export interface OpenDoor {
  /** Name and index of its end on the node. */
  readonly outer: string;
  readonly ifindex: number;
  /** Name of its end in the namespace, and the namespace's name in /run/netns. */
  readonly inner: string;
  readonly namespace: string;
  /** Whether it had to be made. */
  readonly made: boolean;
}

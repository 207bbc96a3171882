import type { Interface, World } from "../world.ts";
import type { PluginConfig } from "./multus.ts";

const NADS = "k8s.cni.cncf.io/network-attachment-definitions";
const ALLOCATIONS = "ipam.holdfast.dev/ipallocations";
/** Of the type of a network that is not ours yet. */
export const OTHER_TYPE = "whereabouts";
const OUR_TYPE = "holdfast-ipam";
/** How often somebody looks whether an address is recorded by now, ms. */
export const LOOK_MS = 1_000;

/**
 * Addresses that another IPAM plugin gave, in the whole cluster. When their network becomes ours they are imported;
 * only from then on the oracle is told of their users. Whoever is given one of them before is found at once.
 */
export class OtherPlugins {
  readonly #world: World;
  /** By network, and by address without its length. */
  readonly #users = new Map<string, Map<string, { readonly one: Interface; isTold: boolean }>>();

  /** Addresses whose users are gone, by network. */
  readonly #former = new Map<string, Set<string>>();

  /** Files of /etc/cni/net.d, the same on every node, by the network that they define. */
  readonly files = new Map<string, string>();

  constructor(world: World) {
    this.#world = world;
  }

  /** As if it were a definition in the API; null: there is no such file. */
  fileOf(network: string) {
    const config = this.files.get(network);
    return config === undefined ? null : { metadata: { name: network }, spec: { config } };
  }

  /**
   * The lowest free address of the range, with its length; null: it is full. The other plugin does not know what
   * Holdfast gives: that both give the same one while not all definitions are switched is documented (known-limits), so
   * it is not looked for here. For the same reason it gives nothing again from when the first definition is switched:
   * an import may just be recording it for the pod that had it.
   */
  give({ network, text }: PluginConfig, one: Interface): string | null {
    const { range, range_start: first = "" } = JSON.parse(text).ipam;
    const [base = "", length = ""] = String(range).split("/");
    const prefix = base.slice(0, base.lastIndexOf(".") + 1);
    const users = this.#usersOf(network);
    const recorded = this.#recordedOf(network);
    const former = this.#isBeingSwitched(network) ? this.#former.get(network) : undefined;
    for (let last = Number(first.slice(prefix.length)) || 2; last < 60; last += 1) {
      const address = `${prefix}${last}`;
      if (users.has(address) || recorded.has(address) || former?.has(address)) continue;
      users.set(address, { one, isTold: false });
      return `${address}/${length}`;
    }
    return null;
  }

  /** The interface is gone. */
  take(network: string, ip: string): void {
    const users = this.#usersOf(network);
    const address = withoutLength(ip);
    const user = users.get(address);
    users.delete(address);
    const former = this.#former.get(network) ?? new Set();
    this.#former.set(network, former.add(address));
    if (user?.isTold) this.#world.oracle.down(user.one);
  }

  /** Holdfast has given these addresses: it must not have been one of those. */
  given(network: string, ips: readonly string[]): void {
    const users = this.#users.get(network);
    if (users !== undefined) for (const ip of ips) this.#tell(users.get(withoutLength(ip)), ip);
  }

  /** Tells of those of a network that are recorded by now; `everybody`: of all. How many it has told of. */
  tellImported(network: string, everybody: boolean): number {
    const recorded = this.#recordedOf(network);
    let told = 0;
    for (const [address, user] of this.#usersOf(network)) {
      if (user.isTold || !(everybody || recorded.get(address) === "Bound")) continue;
      this.#tell(user, `${address}/26`);
      told += 1;
    }
    return told;
  }

  areAllTold(network: string): boolean {
    return [...this.#usersOf(network).values()].every(({ isTold }) => isTold);
  }

  #isBeingSwitched(network: string): boolean {
    const isOurs = (config: string | undefined) =>
      (config?.includes(`"${network}"`) && config.includes(OUR_TYPE)) === true;
    const nads = this.#world.cluster.etcd.range(NADS, "");
    return isOurs(this.files.get(network)) || nads.some(({ object }) => isOurs(object.spec?.config));
  }

  /** The states of what Holdfast has recorded, by address without its length. */
  #recordedOf(network: string): Map<string, string | undefined> {
    const recorded = new Map<string, string | undefined>();
    for (const { object } of this.#world.cluster.etcd.range(ALLOCATIONS, ""))
      if (object.spec?.network === network) recorded.set(withoutLength(object.spec.address), object.status?.state);
    return recorded;
  }

  #tell(user: { readonly one: Interface; isTold: boolean } | undefined, ip: string): void {
    if (user === undefined || user.isTold) return;
    user.isTold = true;
    this.#world.oracle.up(user.one, [ip]);
  }

  #usersOf(network: string): Map<string, { readonly one: Interface; isTold: boolean }> {
    const known = this.#users.get(network);
    if (known !== undefined) return known;
    const users = new Map<string, { readonly one: Interface; isTold: boolean }>();
    this.#users.set(network, users);
    return users;
  }
}

function withoutLength(ip: string): string {
  return ip.slice(0, ip.indexOf("/"));
}

/*
 * test/simulation/cluster/: the API server, its clients and controllers
 *
 *   cluster         what there is: servers over one store, links by name, an admin's client
 *   front           the servers as those who ask see them: away, starting, slow, balanced, restored
 *   sim-link        the way of one process to the server; troubles: what goes wrong with a message
 *   gaps            watches that miss how something is deleted and created again
 *   bill            who asks for what, and how much that is
 *   admin-client    requests of those who act, which take no time
 *   installed       the manifests applied in the beginning; caretakers: garbage collector, namespace controller
 *   controllers     where Holdfast's two controllers run; controller-settings
 *   actions         what happens to servers, links and controllers; server-actions, link-actions, controller-actions
 *   parts           what all of it needs of the world
 */

import type { Connect } from "../../../kube/kube-api.ts";
import { interval } from "../../../platform/time.ts";
import { ApiServer } from "../../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../../harness/kube-fake/client/fake-kube-api.ts";
import { Etcd, type Saved } from "../../harness/kube-fake/etcd.ts";
import type { Access, Gates, User } from "../../harness/kube-fake/requests.ts";
import { Rights } from "../../harness/kube-fake/rights.ts";
import type { AdminClient, Cluster, World } from "../world.ts";
import { DirectClient } from "./admin-client.ts";
import type { Bill } from "./bill.ts";
import { Caretakers } from "./caretakers.ts";
import { Front } from "./front.ts";
import { makeGaps } from "./gaps.ts";
import { install } from "./installed.ts";
import type { ClusterParts } from "./parts.ts";
import { SimLink } from "./sim-link.ts";

const NODE_NAME = "authentication.kubernetes.io/node-name";
/** A node must not read what belongs to machines: a release of their addresses is refused there. */
const OF_MACHINES = /(^|\.)cluster\.x-k8s\.io$/;
const OPERATOR: User = { username: "alice", groups: ["system:masters"] };
const PRODUCT = "system:serviceaccount:holdfast-system:";
/** What a namespace lets the metadata service read, or not: a refusal leaves that part of a document empty. */
const OFFERED: ReadonlySet<string> = new Set(["configmaps", "secrets"]);
/** The API server has etcd compacted so often, ms: to where it was the time before. */
const COMPACTION_MS = 60_000;
/** Events of one resource that a server remembers. */
const CACHE_EVENTS_MAX = 200;
/** After a restore nothing happens to the links for so long, ms. */
const CALM_AFTER_RESTORE_MS = 10_000;

/** A process, which may have several connections. */
interface Client {
  readonly link: SimLink;
  readonly apis: FakeKubeApi[];
}

/** A cluster on the server in memory. */
export class SimCluster implements Cluster {
  readonly etcd = new Etcd();
  readonly admin: AdminClient;
  readonly caretakers: Caretakers;
  readonly front: Front;
  readonly defects: string[] = [];
  /** What else every write is asked about, in this order. */
  readonly admitters: NonNullable<Gates["admit"]>[] = [];
  /** Called after etcd has gone back to an older state. */
  readonly restored: (() => void)[] = [];
  /** Of everybody who connects from then on; null: nobody counts. */
  bill: Bill | null = null;
  readonly #parts: ClusterParts;
  /** Of those who act: it is never away, and serves everything. */
  readonly #behind: ApiServer;
  readonly #clients = new Map<string, Client>();
  #peaces = 0;

  private constructor(parts: ClusterParts) {
    this.#parts = parts;
    const { clock } = parts;
    const rights = new Rights(this.etcd);
    const authorize = (access: Access) => rights.has(access) || this.#denied(access);
    const admit: Gates["admit"] = (review) => {
      for (const admitter of this.admitters) {
        const why = admitter(review);
        if (why !== null) return why;
      }
      return null;
    };
    const common = { clock, etcd: this.etcd, admit, cacheEventsMax: CACHE_EVENTS_MAX };
    this.#behind = new ApiServer(common);
    const servers = [0, 1].map(() => new ApiServer({ ...common, authorize }));
    this.front = new Front(parts, this.etcd, servers);
    this.admin = new DirectClient(this.#behind);
    this.caretakers = new Caretakers(parts, this.#behind);
    makeGaps(parts, this);
    this.#compactRegularly();
  }

  /** With everything installed. Takes no time of the world. */
  static async make(parts: ClusterParts): Promise<SimCluster> {
    const cluster = new SimCluster(parts);
    await install(cluster.admin);
    return cluster;
  }

  /** Of the processes that live. */
  get links(): SimLink[] {
    return [...this.#clients.values()].map(({ link }) => link);
  }

  /** Goes up in each time of peace: what was begun before it comes to nothing. */
  get peaces(): number {
    return this.#peaces;
  }

  connect(
    account: "holdfast-node" | "holdfast-controller" | "holdfast-metadata" | "operator",
    name: string,
    node?: string,
  ): Connect {
    const user: User =
      account === "operator"
        ? OPERATOR
        : {
            username: `${PRODUCT}${account}`,
            groups: ["system:authenticated"],
            ...(node === undefined ? {} : { extra: { [NODE_NAME]: [node] } }),
          };
    return (_kubeconfig, clock, { onList } = {}) => {
      const client = this.#clients.get(name) ?? this.#newClient(name);
      const { link, apis } = client;
      const api = new FakeKubeApi({ server: () => this.front.next(), user, link, clock, onList });
      apis.push(api);
      return api;
    };
  }

  #newClient(name: string): Client {
    const { front } = this;
    const link = new SimLink({
      parts: this.#parts,
      name,
      reached: () => front.reached(),
      slowMs: () => front.slowMs,
      bill: this.bill,
    });
    const apis: FakeKubeApi[] = [];
    link.cutWatches = () => {
      for (const api of apis) api.cutWatches();
    };
    link.silenceWatches = () => {
      for (const api of apis) api.silenceWatches();
    };
    const client = { link, apis };
    this.#clients.set(name, client);
    return client;
  }

  cut(name: string): void {
    const client = this.#clients.get(name);
    if (client === undefined) return;
    client.link.cut();
    for (const api of client.apis) api.abandon();
    this.#clients.delete(name);
  }

  save(): Saved {
    return this.etcd.save();
  }

  /** While the servers are away: etcd goes back. */
  restore(saved: Saved, bumped: number): void {
    this.front.restore(saved, bumped);
    this.#behind.restart();
    const calmUntilMs = this.#parts.clock.monotonicMs() + CALM_AFTER_RESTORE_MS;
    for (const { link } of this.#clients.values()) {
      link.mend();
      link.calmUntilMs = calmUntilMs;
    }
    for (const tell of this.restored) tell();
  }

  heal(): void {
    this.#peaces += 1;
    this.caretakers.isAway = false;
    for (const { link } of this.#clients.values()) link.mend();
    this.front.heal();
  }

  #compactRegularly(): void {
    let until = 0;
    interval(this.#parts.clock, COMPACTION_MS, () => {
      if (until > 0 && until <= this.etcd.revision) this.etcd.compact(until);
      until = this.etcd.revision;
    });
  }

  #denied({ user, verb, group, resource, subresource }: Access): false {
    const what = subresource === "" ? resource : `${resource}/${subresource}`;
    const isOffered = user.username === `${PRODUCT}holdfast-metadata` && OFFERED.has(resource);
    const isKeptBack = user.username === `${PRODUCT}holdfast-node` && OF_MACHINES.test(group);
    if (user.username.startsWith(PRODUCT) && !isOffered && !isKeptBack)
      this.defects.push(`${user.username.slice(PRODUCT.length)} has no right to ${verb} ${group}/${what}`);
    return false;
  }
}

/** A cluster with everything installed. */
export function makeCluster(parts: ClusterParts): Promise<SimCluster> {
  return SimCluster.make(parts);
}

/** The cluster of a world whose parts are those of the simulation. */
export function simClusterOf({ cluster }: World): SimCluster {
  if (!(cluster instanceof SimCluster)) throw new Error("the cluster is another one");
  return cluster;
}

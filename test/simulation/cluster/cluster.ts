/*
 * test/simulation/cluster/: the API server, its clients and controllers
 *
 *   cluster         what there is: the server over its store, links by name, an admin's client
 *   sim-link        the way of one process to the server, and what goes wrong on it
 *   admin-client    requests of those who act, which take no time
 *   installed       the manifests that are applied in the beginning; caretakers: garbage collector, namespace controller
 *   controllers     where Holdfast's two controllers run; controller-settings
 *   parts           what all of it needs of the world
 */

import { ApiServer } from "../../../kube/fake/api-server.ts";
import { FakeKubeApi } from "../../../kube/fake/client/fake-kube-api.ts";
import type { Fate } from "../../../kube/fake/client/link.ts";
import { Etcd } from "../../../kube/fake/etcd.ts";
import type { Access, Gates, User } from "../../../kube/fake/requests.ts";
import { Rights } from "../../../kube/fake/rights.ts";
import type { Connect } from "../../../kube/kube-api.ts";
import type { AdminClient, Cluster } from "../world.ts";
import { DirectClient } from "./admin-client.ts";
import { Caretakers } from "./caretakers.ts";
import { install } from "./installed.ts";
import type { ClusterParts } from "./parts.ts";
import { SimLink } from "./sim-link.ts";

const NODE_NAME = "authentication.kubernetes.io/node-name";
const PRODUCT = "system:serviceaccount:holdfast-system:";

interface Client {
  readonly link: SimLink;
  readonly api: FakeKubeApi;
}

/** A cluster on the server in memory. */
export class SimCluster implements Cluster {
  readonly etcd = new Etcd();
  readonly admin: AdminClient;
  readonly caretakers: Caretakers;
  /** What the product must never meet: a right that its manifests do not give it. */
  readonly defects: string[] = [];
  /** What else every write is asked about, in this order. */
  readonly admitters: NonNullable<Gates["admit"]>[] = [];
  /** Called after etcd has gone back to an older state. */
  readonly restored: (() => void)[] = [];
  readonly #parts: ClusterParts;
  readonly #server: ApiServer;
  readonly #clients = new Map<string, Client>();
  #isAway = false;

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
    this.#server = new ApiServer({ clock, etcd: this.etcd, authorize, admit });
    const everything = new ApiServer({ clock, etcd: this.etcd, admit });
    this.admin = new DirectClient(everything);
    this.caretakers = new Caretakers(parts, everything);
  }

  /** With everything installed. Takes no time of the world. */
  static async make(parts: ClusterParts): Promise<SimCluster> {
    const cluster = new SimCluster(parts);
    await install(cluster.admin, parts.root ?? process.cwd());
    return cluster;
  }

  connect(
    account: "holdfast-node" | "holdfast-controller" | "holdfast-metadata",
    name: string,
    node?: string,
  ): Connect {
    const user: User = {
      username: `${PRODUCT}${account}`,
      groups: ["system:authenticated"],
      ...(node === undefined ? {} : { extra: { [NODE_NAME]: [node] } }),
    };
    return (_kubeconfig, clock) => {
      const link = new SimLink({ parts: this.#parts, name, reached: () => this.#reached() });
      const api = new FakeKubeApi({ server: () => this.#server, user, link, clock });
      this.#clients.set(name, { link, api });
      return api;
    };
  }

  cut(link: string): void {
    this.#clients.get(link)?.link.cut();
    this.#clients.delete(link);
  }

  heal(): void {
    this.caretakers.isAway = false;
    for (const { link } of this.#clients.values()) link.mend();
    this.#isAway = false;
  }

  #reached(): Fate | undefined {
    return this.#isAway ? { lost: "before" } : undefined;
  }

  #denied({ user, verb, group, resource, subresource }: Access): false {
    const what = subresource === "" ? resource : `${resource}/${subresource}`;
    if (user.username.startsWith(PRODUCT))
      this.defects.push(`${user.username.slice(PRODUCT.length)} has no right to ${verb} ${group}/${what}`);
    return false;
  }
}

/** A cluster with everything installed. */
export function makeCluster(parts: ClusterParts): Promise<SimCluster> {
  return SimCluster.make(parts);
}

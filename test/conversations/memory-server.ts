import { join } from "node:path";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ApiServer } from "../harness/kube-fake/api-server.ts";
import { FakeKubeApi } from "../harness/kube-fake/client/fake-kube-api.ts";
import type { Fate } from "../harness/kube-fake/client/link.ts";
import { collectGarbage } from "../harness/kube-fake/controllers/garbage-collector.ts";
import { endNamespaces } from "../harness/kube-fake/controllers/namespace-controller.ts";
import { Etcd, type Saved } from "../harness/kube-fake/etcd.ts";
import { Rights } from "../harness/kube-fake/rights.ts";
import { collectionOf, readManifestDirectory, readManifests } from "../harness/kube-manifests.ts";
import { VirtualTime } from "../harness/virtual-time.ts";
import type { ServerUnderTest } from "./server-under-test.ts";
import type { Fault, OperateStep, Who } from "./steps.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Writes between a backup and the restored etcd's new revisions. */
const BUMPED = 500;
const WRITES_OF_START = 20;

/** The server in memory, with the definitions and rights of the shipped manifests. */
export class MemoryServer implements ServerUnderTest {
  readonly minor = 20;
  readonly apiServer: ApiServer;
  readonly #time = new VirtualTime();
  readonly #clock = this.#time.clock();
  readonly #apis = new Map<Who, FakeKubeApi>();
  /** Of the next attempts, one after the other; beyond them all is well. */
  readonly fates: Fate[] = [];
  #saved: Saved | null = null;

  constructor() {
    const etcd = new Etcd();
    const rights = new Rights(etcd);
    this.apiServer = new ApiServer({ clock: this.#clock, etcd, authorize: (access) => rights.has(access) });
    const definitions = [
      ...readManifests(join(ROOT, "deploy/rbac.yaml")),
      ...readManifestDirectory(join(ROOT, "deploy/crds")),
      ...readManifestDirectory(join(ROOT, "test/harness/crds")),
    ];
    for (const one of definitions) this.apiServer.put(collectionOf(one), one);
    // Other parts of a cluster write as well: nothing of these conversations is the first of all.
    this.apiServer.etcd.bump(100);
  }

  api(who: Who): KubeApi {
    return this.client(who);
  }

  client(who: Who): FakeKubeApi {
    const known = this.#apis.get(who);
    if (known) return known;
    const user =
      who === "admin"
        ? { username: "admin", groups: ["system:masters"] }
        : { username: `system:serviceaccount:holdfast-system:${who}` };
    const link = { fate: () => this.fates.shift() };
    const api = new FakeKubeApi({
      server: () => this.apiServer,
      user,
      link,
      clock: this.#clock,
    });
    this.#apis.set(who, api);
    return api;
  }

  nowMs(): number {
    return this.#clock.monotonicMs();
  }

  run<T>(work: Promise<T>): Promise<T> {
    return this.#time.run(work);
  }

  until(isSo: () => boolean, what: string): Promise<void> {
    return this.#time.until(isSo, what);
  }

  async letControllersWork(): Promise<void> {
    await collectGarbage(this.apiServer);
    await endNamespaces(this.apiServer);
  }

  async operate(act: OperateStep["act"]): Promise<void> {
    if (act === "compact") {
      this.apiServer.etcd.bump();
      this.apiServer.etcd.compact();
    } else if (act === "restart") this.apiServer.restart();
    else if (act === "save") this.#saved = this.apiServer.save();
    else if (act === "close watches") this.apiServer.watches.end();
    else {
      this.apiServer.restore(this.#saved as Saved, { bumped: act === "restore newer" ? BUMPED : 0 });
      // What writes when a server starts.
      this.apiServer.etcd.bump(WRITES_OF_START);
    }
  }

  fault(fault: Fault): void {
    if (fault === "lost before") this.fates.push({ lost: "before" });
    else if (fault === "lost after") this.fates.push({ lost: "after" });
    else if (fault === "twice") this.fates.push({ twice: true });
    else this.fates.push({ ...fault, message: "not now" });
  }
}

import { HttpKubeApi } from "../../kube/http/http-kube-api.ts";
import { loadKubeConfig } from "../../kube/http/kube-config.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { systemClock } from "../../platform/time.ts";
import { ApiProxy, type ProxyAct } from "../harness/api-proxy.ts";
import { TestCluster } from "../harness/cluster.ts";
import { pause, until } from "../harness/wait.ts";
import type { ServerUnderTest } from "./server-under-test.ts";
import type { Fault, OperateStep, Who } from "./steps.ts";

const BUMPED = 500;
const CONTROLLERS_MS = 100;

/** A real API server, through a proxy that can lose what goes over it, and the client that the product has. */
export class RealServer implements ServerUnderTest {
  readonly minor: number;
  readonly cluster: TestCluster;
  readonly #proxy: ApiProxy;
  readonly #apis = new Map<Who, HttpKubeApi>();
  #saved = "";

  private constructor(cluster: TestCluster, proxy: ApiProxy, minor: number) {
    this.cluster = cluster;
    this.#proxy = proxy;
    this.minor = minor;
  }

  static async start(): Promise<RealServer> {
    const cluster = await TestCluster.start();
    const { minor } = await cluster.api.get("/version");
    return new RealServer(cluster, await ApiProxy.start(cluster), Number.parseInt(minor, 10));
  }

  async stop(): Promise<void> {
    for (const api of this.#apis.values()) api.close();
    await this.#proxy.stop();
    await this.cluster.stop();
  }

  api(who: Who): KubeApi {
    const known = this.#apis.get(who);
    if (known) return known;
    const kubeconfig = this.cluster.kubeconfig(who, this.#proxy.url, this.#proxy.ca);
    const api = new HttpKubeApi(loadKubeConfig(kubeconfig), systemClock);
    this.#apis.set(who, api);
    return api;
  }

  nowMs(): number {
    return performance.now();
  }

  run<T>(work: Promise<T>): Promise<T> {
    return work;
  }

  until(isSo: () => boolean, what: string): Promise<void> {
    return until(async () => isSo(), what);
  }

  async letControllersWork(): Promise<void> {
    await pause(CONTROLLERS_MS);
  }

  async operate(act: OperateStep["act"]): Promise<void> {
    const { cluster } = this;
    if (act === "compact") await cluster.compactEtcd();
    else if (act === "restart") {
      await cluster.stopApiServer();
      await cluster.startApiServer();
    } else if (act === "save") this.#saved = await cluster.saveEtcd();
    else if (act === "close watches") this.#proxy.endWatches();
    else await cluster.restoreEtcd(this.#saved, { bumped: act === "restore newer" ? BUMPED : 0 });
  }

  fault(fault: Fault): void {
    this.#proxy.rule({ when: () => true, times: 1, act: actOf(fault) });
  }
}

function actOf(fault: Fault): ProxyAct {
  if (fault === "lost before") return "drop-request";
  if (fault === "lost after") return "drop-answer";
  if (fault === "twice") return "twice";
  const { status, retryAfterSeconds } = fault;
  const headers = retryAfterSeconds === undefined ? {} : { "retry-after": `${retryAfterSeconds}` };
  return { status, headers, body: { kind: "Status", code: status, message: "not now" } };
}

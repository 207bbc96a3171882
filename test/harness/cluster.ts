import { execFileSync } from "node:child_process";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connectOverHttp } from "../../kube/http/http-kube-api.ts";
import type { Connect } from "../../kube/kube-api.ts";
import { makeCertificate } from "./certificate.ts";
import { apiServer, controllerManager, etcd } from "./cluster-parts.ts";
import { newDirectory } from "./daemon.ts";
import { type KubeApi, type KubeObject, ServerApi } from "./kube-api.ts";
import { applyObjects, definitionsServed, readManifestDirectory, readManifests } from "./kube-manifests.ts";
import { NO_WRITES, readsOf, type WriteCounts, writesOf } from "./kube-metrics.ts";
import { freePorts, type KubeProcess } from "./kube-process.ts";
import { machineTime, until } from "./wait.ts";
import { ACCOUNTS, type Account, type Cluster, type ClusterUser, VIEWER_BINDING } from "./world/cluster.ts";
import { kubeconfigText } from "./world/kubeconfig.ts";

const ROOT = join(import.meta.dirname, "../..");
const HARNESS_CRDS = join(import.meta.dirname, "crds");
/** Longer than any test. */
const TOKEN_SECONDS = 24 * 3600;
/** In one transaction, by default. */
const ETCD_OPERATIONS_MAX = 128;

export interface ClusterOptions {
  /** The IPAMClaim definition from before it knew ownerPod and conditions. */
  readonly oldClaims?: boolean;
  /** Whether kube-controller-manager runs (garbage collection, namespaces); default true. */
  readonly controllers?: boolean;
  /**
   * Requests at once, which API Priority and Fairness shares out; default: the server's own, and none of it in
   * Kubernetes 1.20.
   */
  readonly requestsMax?: number;
  /** More flags for kube-apiserver. */
  readonly apiServerArgs?: readonly string[];
}

export type { ClusterUser } from "./world/cluster.ts";

/**
 * A real API server with etcd and the garbage collector on the loopback, in a temporary directory. No kubelet, no
 * scheduler.
 */
export class TestCluster implements Cluster {
  /** Where the API server is, e.g. `https://127.0.0.1:12345`. */
  readonly server: string;
  /** PEM; also the certificate for a proxy in front of it. */
  readonly ca: string;
  /** The private key of `ca`, PEM. */
  readonly key: string;
  /** A client with every right. */
  readonly api: KubeApi;
  readonly directory: string;
  readonly time = machineTime;
  readonly #adminToken = randomUUID();
  readonly #tokens = new Map<ClusterUser, string>();
  readonly #parts: { etcd: KubeProcess; apiServer: KubeProcess; controllerManager: KubeProcess | null };
  readonly #etcdUrl: string;
  readonly #options: ClusterOptions;

  private constructor(directory: string, ports: readonly number[], options: ClusterOptions) {
    const [apiPort, etcdPort, peerPort] = ports as [number, number, number];
    const assets = assetDirectory();
    this.#options = options;
    this.directory = directory;
    this.server = `https://127.0.0.1:${apiPort}`;
    this.#etcdUrl = `http://127.0.0.1:${etcdPort}`;
    const { certificate, key } = makeCertificate(directory);
    this.ca = certificate;
    this.key = key;
    this.api = new ServerApi(this.server, this.ca, this.#adminToken);
    this.#tokens.set("admin", this.#adminToken);
    this.#tokens.set("viewer", randomUUID());
    const persons = [`${this.#adminToken},admin,admin,system:masters`, `${this.token("viewer")},viewer,viewer`];
    writeFileSync(join(directory, "tokens.csv"), `${persons.join("\n")}\n`);
    const signing = generateKeyPairSync("ec", { namedCurve: "P-256" });
    writeFileSync(join(directory, "signing.key"), signing.privateKey.export({ type: "sec1", format: "pem" }) as string);
    this.#parts = {
      etcd: etcd(assets, directory, etcdPort, peerPort),
      apiServer: apiServer(assets, directory, apiPort, this.#etcdUrl, options),
      controllerManager: null,
    };
  }

  static async start(options: ClusterOptions = {}): Promise<TestCluster> {
    const directory = newDirectory();
    let cluster: TestCluster | null = null;
    try {
      cluster = new TestCluster(directory, await freePorts(3), options);
      await cluster.#begin(options);
      return cluster;
    } catch (error) {
      await cluster?.stop();
      rmSync(directory, { recursive: true, force: true });
      throw error;
    }
  }

  /** Ends every process and removes the directory. */
  async stop(): Promise<void> {
    this.api.close();
    const { etcd, apiServer, controllerManager } = this.#parts;
    await Promise.all([controllerManager?.end(), apiServer.end(), etcd.end()]);
    rmSync(this.directory, { recursive: true, force: true });
  }

  /**
   * Writes a kubeconfig file and returns its path. `server` (and `ca`, when its certificate is another one) lead to a
   * proxy instead of the API server itself.
   */
  kubeconfig(user: ClusterUser, server = this.server, ca = this.ca): string {
    const path = join(this.directory, `${user}-${randomUUID().slice(0, 8)}.kubeconfig`);
    writeFileSync(path, kubeconfigText({ user, token: this.token(user), server, ca }), { mode: 0o600 });
    return path;
  }

  /** The bearer token of a user. */
  token(user: ClusterUser): string {
    return this.#tokens.get(user) as string;
  }

  /** A client with the rights of a user. Close it, or let it go with the process. */
  apiAs(user: ClusterUser): KubeApi {
    return this.apiWith(this.token(user));
  }

  apiWith(token: string): KubeApi {
    return new ServerApi(this.server, this.ca, token);
  }

  connect(user: ClusterUser): Connect {
    return (_kubeconfig, clock, options) => connectOverHttp(this.kubeconfig(user), clock, options);
  }

  /** Applies objects in their order; definitions are served when this returns. */
  async apply(objects: readonly KubeObject[]): Promise<void> {
    const definitions = objects.filter(({ kind }) => kind === "CustomResourceDefinition");
    await applyObjects(this.api, objects);
    await definitionsServed(this.api, definitions);
  }

  async define(definitions: readonly KubeObject[]): Promise<void> {
    await this.apply(definitions);
    await this.#restartControllers();
  }

  /** Kills the API server: told to end, it waits a minute for open watches. */
  stopApiServer(): Promise<void> {
    return this.#parts.apiServer.end();
  }

  /** Starts it again, with the same address and data, and waits until it serves. */
  async startApiServer(): Promise<void> {
    this.#parts.apiServer.start();
    await this.#serving();
    await this.#restartControllers();
  }

  /** Of the processes that run now. */
  get pids(): Readonly<Record<"apiServer" | "etcd", number | undefined>> {
    return { apiServer: this.#parts.apiServer.pid, etcd: this.#parts.etcd.pid };
  }

  /** One more API server on the same etcd, not started yet. Whoever asks for it ends it, before the cluster. */
  anotherApiServer(port: number): KubeProcess {
    return apiServer(assetDirectory(), this.directory, port, this.#etcdUrl, this.#options);
  }

  /** Freezes the API server: its connections stay open, and nothing is answered until it goes on. */
  pauseApiServer(): void {
    this.#parts.apiServer.signal("SIGSTOP");
  }

  continueApiServer(): void {
    this.#parts.apiServer.signal("SIGCONT");
  }

  /** Kills etcd: requests that need it fail. */
  stopEtcd(): Promise<void> {
    return this.#parts.etcd.end();
  }

  /**
   * Starts it again with the same data. With `wait` (default), waits until the API server, if it runs, serves again.
   */
  async startEtcd(wait = true): Promise<void> {
    this.#parts.etcd.start();
    if (!wait || !this.#parts.apiServer.running) return;
    await this.#serving();
    await this.#restartControllers();
  }

  /** Copies what etcd has, as a backup of this moment; etcd is stopped meanwhile. Returns the directory. */
  async saveEtcd(): Promise<string> {
    await this.stopEtcd();
    const saved = join(this.directory, `etcd-${randomUUID().slice(0, 8)}`);
    cpSync(join(this.directory, "etcd"), saved, { recursive: true });
    await this.startEtcd();
    return saved;
  }

  /**
   * Restores what `saveEtcd` saved, as the documents of etcd say: API server and etcd are stopped, and started again on
   * the older data. `bumped`: with revisions that are newer than any before, by as many writes.
   */
  async restoreEtcd(saved: string, { bumped = 0 }: { readonly bumped?: number } = {}): Promise<void> {
    await this.#parts.apiServer.end();
    await this.stopEtcd();
    rmSync(join(this.directory, "etcd"), { recursive: true });
    cpSync(saved, join(this.directory, "etcd"), { recursive: true });
    this.#parts.etcd.start();
    if (bumped > 0) await this.#bump(bumped);
    await this.startApiServer();
  }

  /**
   * Writes objects as the API server keeps them, but past it: in bulk, and unchecked. Custom resources only. Their
   * names in etcd are `group/resource/namespace/name`, without the namespace where they have none.
   */
  async writeEtcd(objects: ReadonlyMap<string, KubeObject>): Promise<void> {
    const base64 = (text: string) => Buffer.from(text).toString("base64");
    const puts = [...objects].map(([name, object]) => ({
      requestPut: { key: base64(`/registry/${name}`), value: base64(`${JSON.stringify(object)}\n`) },
    }));
    for (let from = 0; from < puts.length; from += ETCD_OPERATIONS_MAX) {
      const success = puts.slice(from, from + ETCD_OPERATIONS_MAX);
      const { error } = await this.#askEtcd("txn", { success });
      if (error !== undefined) throw new Error(`etcd did not take the objects: ${error}`);
    }
  }

  /** Makes etcd forget every earlier version. */
  async compactEtcd(): Promise<void> {
    const key = Buffer.from("test/bump").toString("base64");
    const { header } = await this.#askEtcd("put", { key, value: "" });
    const { error } = await this.#askEtcd("compaction", { revision: header?.revision, physical: true });
    if (error !== undefined) throw new Error(`etcd was not compacted: ${error}`);
  }

  async #askEtcd(
    what: string,
    body: object,
  ): Promise<{ readonly header?: { readonly revision?: string }; readonly error?: string }> {
    const answer = await fetch(`${this.#etcdUrl}/v3/kv/${what}`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    return (await answer.json()) as { header?: { revision?: string }; error?: string };
  }

  async #bump(revisions: number): Promise<void> {
    const put = async () => {
      const body = JSON.stringify({
        key: Buffer.from("test/bump").toString("base64"),
        value: randomUUID().replaceAll("-", ""),
      });
      return (await fetch(`${this.#etcdUrl}/v3/kv/put`, { method: "POST", body }).catch(() => null))?.ok;
    };
    await until(async () => (await put()) === true, "etcd");
    for (let done = 0; done < revisions; done += 50) {
      const answers = await Promise.all(Array.from({ length: 50 }, put));
      if (!answers.every((ok) => ok)) throw new Error("etcd took not every write");
    }
  }

  /** Freezes etcd: requests hang instead of failing. */
  pauseEtcd(): void {
    this.#parts.etcd.signal("SIGSTOP");
  }

  continueEtcd(): void {
    this.#parts.etcd.signal("SIGCONT");
  }

  /**
   * Requests that the API server has served since its start, whatever their outcome, by resource and verb. Subresources
   * count by themselves: `ipamclaims/status`. With `resource`, of this one.
   */
  writes(): Promise<Readonly<Record<string, WriteCounts>>>;
  writes(resource: string): Promise<WriteCounts>;
  async writes(resource?: string): Promise<unknown> {
    const counts = writesOf(await this.api.get("/metrics"));
    return resource === undefined ? counts : (counts[resource] ?? NO_WRITES);
  }

  async reads(resource: string): Promise<number> {
    return readsOf(await this.api.get("/metrics"), resource);
  }

  async #begin(options: ClusterOptions): Promise<void> {
    this.#parts.etcd.start();
    this.#parts.apiServer.start();
    await this.#serving();
    const claims = options.oldClaims
      ? readManifestDirectory(join(HARNESS_CRDS, "old"))
      : readManifests(join(HARNESS_CRDS, "ipamclaims.yaml"));
    const others = readManifestDirectory(HARNESS_CRDS).filter(
      ({ metadata }) => metadata.name !== "ipamclaims.k8s.cni.cncf.io",
    );
    await this.apply([
      ...readManifestDirectory(join(ROOT, "deploy/crds")),
      ...claims,
      ...others,
      ...readManifests(join(ROOT, "deploy/rbac.yaml")),
      VIEWER_BINDING,
    ]);
    for (const account of ACCOUNTS) await this.#issueToken(account);
    if (options.controllers !== false) await this.#startControllers();
  }

  /** After the definitions: the garbage collector looks for new ones only every 30 s. */
  async #startControllers(): Promise<void> {
    const { minor } = await this.api.get("/version");
    const kubeconfig = this.kubeconfig("admin");
    const manager = controllerManager(assetDirectory(), kubeconfig, Number.parseInt(minor, 10));
    this.#parts.controllerManager = manager;
    manager.start();
  }

  /**
   * They learn of new definitions when they start. Left alone after a failure, they come back within half a minute; new
   * ones need a second.
   */
  async #restartControllers(): Promise<void> {
    const manager = this.#parts.controllerManager;
    await manager?.end();
    manager?.start();
  }

  async #issueToken(account: Account): Promise<void> {
    const { status } = await this.api.create(`/api/v1/namespaces/holdfast-system/serviceaccounts/${account}/token`, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: TOKEN_SECONDS },
    });
    this.#tokens.set(account, status.token);
  }

  async #serving(): Promise<void> {
    const { etcd, apiServer } = this.#parts;
    await until(async () => {
      for (const part of [etcd, apiServer])
        if (!part.running) throw new Error(`a part of the cluster ended: ${part.log}`);
      return (await this.api.call("GET", "/readyz").catch(() => null))?.status === 200;
    }, "the API server");
  }
}

let assets: string | null = null;

/** The directory with the three binaries; built by the tool where there is none, which takes minutes and says so. */
function assetDirectory(): string {
  assets ??=
    process.env.HOLDFAST_KUBE_ASSETS ??
    execFileSync(join(ROOT, "tools/kube-assets"), {
      stdio: ["ignore", "pipe", "inherit"],
      encoding: "utf8",
    }).trim();
  return assets;
}

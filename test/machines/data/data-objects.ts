import { join } from "node:path";
import { SECRETS_PATH } from "../../../kube/metal3.ts";
import { namespacedPath } from "../../../kube/objects.ts";
import type { KubeObject } from "../../harness/kube-api.ts";
import { readManifestDirectory, readManifests } from "../../harness/kube-manifests.ts";
import { machineDefinitions } from "../../harness/machines/definitions.ts";
import type { Cluster } from "../../harness/world/cluster.ts";
import { NAMESPACE } from "../../harness/world/network.ts";
import { PATHS } from "./own-mode-here.ts";

const DEPLOY = join(import.meta.dirname, "../../../deploy/machines");
const POOLS_PATH = "/apis/ipam.holdfast.dev/v1alpha1/addresspools";
/** A thousand machines on a busy machine take so long at most, ms. */
const READY_MS_MAX = 120_000;

/** Metal3's data kinds as deploy/machines brings them, its rights, hosts, and what users do with them. */
export class DataObjects {
  readonly #cluster: Cluster;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** `rights`: of deploy/machines, by their names. */
  async install({ rights = () => true }: { rights?: (name: string) => boolean } = {}): Promise<void> {
    const hosts = machineDefinitions("metal3-host").filter(({ metadata }) => metadata.name.startsWith("baremetal"));
    await this.#cluster.define([...readManifestDirectory(join(DEPLOY, "crds")), ...hosts]);
    const all = readManifests(join(DEPLOY, "rbac.yaml"));
    await this.#cluster.apply(all.filter(({ metadata }) => rights(metadata.name)));
  }

  template(name: string, spec: object): Promise<KubeObject> {
    return this.#create(PATHS.templates, "Metal3DataTemplate", name, { spec });
  }

  pool(name: string, network: string): Promise<KubeObject> {
    return this.#create(POOLS_PATH, "AddressPool", name, { spec: { network } });
  }

  /** A machine, and the host of its name unless that is left out. */
  async machine(
    name: string,
    { template = "t", host = true }: { readonly template?: string; readonly host?: boolean } = {},
  ): Promise<KubeObject> {
    if (host) await this.host(name);
    const annotations = { "metal3.io/BareMetalHost": `${NAMESPACE}/${name}` };
    return this.#create(PATHS.machines, "Metal3Machine", name, {
      metadata: { annotations },
      spec: { dataTemplate: { name: template } },
    });
  }

  async host(name: string, nics: readonly object[] = [{ name: "eth0", mac: "52:54:00:00:00:01" }]): Promise<void> {
    await this.#create(PATHS.hosts, "BareMetalHost", name, { spec: { bootMACAddress: "52:54:00:00:00:ff" } });
    if (nics.length > 0) await this.inspect(name, nics);
  }

  /** As the baremetal-operator writes what inspection has found. */
  inspect(name: string, nics: readonly object[]): Promise<KubeObject> {
    const path = `${namespacedPath(PATHS.hosts, NAMESPACE, name)}/status`;
    return this.#cluster.api.patch(path, { status: { hardware: { nics } } });
  }

  async delete(path: keyof typeof PATHS, name: string): Promise<void> {
    await this.#cluster.api.delete(namespacedPath(PATHS[path], NAMESPACE, name));
  }

  read(path: keyof typeof PATHS, name: string): Promise<KubeObject | null> {
    return this.#cluster.api.find(namespacedPath(PATHS[path], NAMESPACE, name));
  }

  all(path: keyof typeof PATHS): Promise<KubeObject[]> {
    return this.#cluster.api.list(namespacedPath(PATHS[path], NAMESPACE));
  }

  /** The text in a Secret; null: there is none. */
  async secret(name: string, key: string): Promise<string | null> {
    const secret = await this.#cluster.api.find(namespacedPath(SECRETS_PATH, NAMESPACE, name));
    return secret === null ? null : Buffer.from(secret.data[key], "base64").toString();
  }

  /** The machine's status, once its data is there and its host was told. */
  async untilReady(name: string): Promise<KubeObject> {
    let status: KubeObject;
    await this.#cluster.time.until(
      async () => {
        status = (await this.read("machines", name))?.status;
        return isReady(status);
      },
      () => `machine ${name} to be ready; it says ${JSON.stringify(status)}`,
    );
    return status;
  }

  /** So many machines are ready. */
  async untilAllReady(count: number): Promise<void> {
    let done = 0;
    await this.#cluster.time.until(
      async () => {
        done = (await this.all("machines")).filter(({ status }) => isReady(status)).length;
        return done === count;
      },
      () => `${count} machines to be ready, of which ${done} are`,
      READY_MS_MAX,
    );
  }

  /** Nothing of them is left. */
  async untilGone(): Promise<void> {
    const left: (keyof typeof PATHS)[] = ["claims", "datas", "secrets"];
    let still: unknown;
    await this.#cluster.time.until(
      async () => {
        const lists = await Promise.all(left.map((path) => this.all(path)));
        const own = lists.flat().filter(({ metadata }) => metadata.ownerReferences !== undefined);
        still = own.map(({ metadata }) => metadata.name);
        return own.length === 0;
      },
      () => `everything of the machines to go; left are ${JSON.stringify(still)}`,
    );
  }

  #create(
    collection: string,
    kind: string,
    name: string,
    { metadata = {}, ...parts }: KubeObject,
  ): Promise<KubeObject> {
    const apiVersion = collection.split("/").slice(2, 4).join("/");
    return this.#cluster.api.create(namespacedPath(collection, NAMESPACE), {
      apiVersion,
      kind,
      metadata: { name, namespace: NAMESPACE, ...metadata },
      ...parts,
    });
  }
}

function isReady(status: KubeObject | undefined): boolean {
  const conditions: KubeObject[] = status?.conditions ?? [];
  return ["Metal3DataReady", "HostDataReferenced"].every((wanted) =>
    conditions.some(({ type, status: is }) => type === wanted && is === "True"),
  );
}

/** Requests of a controller that the API server has refused for want of a right, by its own count. */
export async function forbiddenOf(
  { port }: { readonly port: number },
  time: { run<T>(work: Promise<T>): Promise<T> },
): Promise<number> {
  const text = await time.run(fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text()));
  const lines = text
    .split("\n")
    .filter((line) => line.includes("_api_requests_total{") && line.includes('status="403"'));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

import { join } from "node:path";
import { MachineCaches } from "../../../controller/capi/machine-caches.ts";
import type { PoolOutcome } from "../../../controller/machine-data/data-pools.ts";
import { OwnMode } from "../../../controller/machine-data/own-mode.ts";
import { CAPI_IPAM_GROUP } from "../../../kube/cluster-api.ts";
import { EventWriter } from "../../../kube/events.ts";
import {
  DATA_API_VERSION,
  DATA_CLAIMS_PATH,
  DATA_TEMPLATES_PATH,
  HOST_ANNOTATION,
  HOSTS_PATH,
  INFRASTRUCTURE_GROUP,
  MACHINE_DATAS_PATH,
  SECRETS_PATH,
} from "../../../kube/metal3.ts";
import { ADDRESS_POOLS_PATH, namespacedPath } from "../../../kube/objects.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";
import { collectionOf, readManifestDirectory } from "../../harness/kube-manifests.ts";
import { VirtualTime } from "../../harness/virtual-time.ts";

// biome-ignore lint/suspicious/noExplicitAny: objects of every kind
type Any = any;

const ROOT = join(import.meta.dirname, "../../..");
const NAMESPACE = "shop";
const DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MACHINES_PATH = `/apis/${INFRASTRUCTURE_GROUP}/v1beta2/metal3machines`;
const ADDRESS_CLAIMS_PATH = `/apis/${CAPI_IPAM_GROUP}/v1beta2/ipaddressclaims`;
const ADDRESSES_PATH = `/apis/${CAPI_IPAM_GROUP}/v1beta2/ipaddresses`;
const EVENTS_PATH = "/api/v1/events";
/** Long enough for everything that has not to wait for anybody, ms of virtual time. */
const SETTLED_MS = 20_000;

/** How a machine differs from the usual: a host of its name, and the template `t`. */
export interface MachineParts {
  readonly host?: string | null;
  readonly template?: string | null;
  readonly spec?: object;
  readonly labels?: object;
  readonly annotations?: object;
}

/**
 * Own mode without the controller around it, over the server in memory, with the rights of the controller and in
 * virtual time; everything is in one namespace.
 */
export class OwnModeHere {
  readonly time: VirtualTime;
  readonly api: KubeInMemory;
  /** What it is told of why it may not write. */
  idle: string | null = null;
  readonly warnings: string[] = [];
  /** What a data object without a claim is given; null: nothing. */
  directAddress: string | null = null;
  /** What data objects hold themselves, by `uid pool`. */
  readonly ledger = new Map<string, PoolOutcome>();
  readonly #modes: { readonly mode: OwnMode; readonly machines: MachineCaches }[] = [];

  constructor(seed = 1) {
    this.time = new VirtualTime(seed);
    this.api = new KubeInMemory(this.time.clock(), "holdfast-controller");
    for (const one of readManifestDirectory(join(ROOT, "deploy/machines/crds"))) this.define(one);
    this.define(definition("metal3.io", "v1alpha1", "BareMetalHost"));
  }

  /** Cluster API's claims and addresses are served from now on, in one version. */
  serveClaims(version = "v1beta2"): void {
    this.define(definition(CAPI_IPAM_GROUP, version, "IPAddressClaim"));
    this.define(definition(CAPI_IPAM_GROUP, version, "IPAddress", "ipaddresses"));
  }

  /** Cluster API is uninstalled. */
  unserveClaims(): void {
    for (const [plural, collection] of [
      ["ipaddressclaims", ADDRESS_CLAIMS_PATH],
      ["ipaddresses", ADDRESSES_PATH],
    ] as const) {
      for (const { metadata } of this.all(collection)) this.remove(collection, metadata.name);
      this.api.remove(`${DEFINITIONS_PATH}/${plural}.${CAPI_IPAM_GROUP}`);
    }
    for (const { machines } of this.#modes) machines.relist();
  }

  define(definition: Any): void {
    this.api.put(collectionOf(definition), definition);
  }

  /** As an installation of CAPM3 changes the definition. */
  editDefinition(kind: string, change: (definition: Any) => void): void {
    const path = `${DEFINITIONS_PATH}/${kind}.${INFRASTRUCTURE_GROUP}`;
    const known = structuredClone(this.api.at(path));
    change(known);
    this.api.put(DEFINITIONS_PATH, known);
  }

  /** One more controller. */
  start({ graceSeconds = 5 } = {}): OwnMode {
    const log = {
      info: () => {},
      warn: (...parts: Any[]) => void this.warnings.push(parts.map((part) => JSON.stringify(part)).join(" ")),
    } as Any;
    const nothing = () => {};
    const machines = new MachineCaches(
      this.api,
      {
        ...{ claim: nothing, claimGone: nothing, address: nothing, addressGone: nothing, pool: nothing },
        ...{ poolGone: nothing, cluster: nothing, clusterGone: nothing, metal3Pool: nothing },
        ...{ poolsInterrupted: nothing, changed: () => mode.clusterChanged() },
      },
      log,
    );
    const mode = new OwnMode({
      api: this.api,
      machines,
      catalog: { networks: () => [], definitionOf: () => null },
      direct: {
        held: ({ uid }, pool) => this.ledger.get(`${uid} ${pool}`) ?? null,
        reserve: async ({ uid }, pool) => this.#reserve(`${uid} ${pool}`),
      },
      events: new EventWriter({ api: this.api, component: "holdfast-controller", host: "here" }),
      graceSeconds,
      idle: () => this.idle,
      log,
    });
    machines.start();
    mode.start();
    this.#modes.push({ mode, machines });
    return mode;
  }

  async stop(): Promise<void> {
    for (const { mode, machines } of this.#modes.splice(0))
      await this.time.run(Promise.all([mode.stopWork(), mode.stop(), machines.stop()]));
  }

  /** Lets everything happen that needs nobody else. */
  settle(ms = SETTLED_MS): Promise<void> {
    return this.time.pass(ms);
  }

  template(name: string, spec: object, annotations: object = {}): Any {
    return this.#put(DATA_TEMPLATES_PATH, "Metal3DataTemplate", name, { metadata: { annotations }, spec });
  }

  /** A Metal3Machine. */
  machine(name: string, parts: MachineParts = {}): Any {
    const { host = name, template = "t", spec = {}, labels = {}, annotations = {} } = parts;
    const chosen = host === null ? {} : { [HOST_ANNOTATION]: `${NAMESPACE}/${host}` };
    const metadata = { labels, annotations: { ...chosen, ...annotations } };
    const dataTemplate = template === null ? {} : { dataTemplate: { name: template } };
    return this.#put(MACHINES_PATH, "Metal3Machine", name, { metadata, spec: { ...dataTemplate, ...spec } });
  }

  /** A BareMetalHost that is inspected. */
  host(name: string, { nics = [{ name: "eth0", mac: "02:00:00:00:00:01" }], spec = {} }: Any = {}): Any {
    const status = nics === null ? {} : { hardware: { nics } };
    return this.#put(HOSTS_PATH, "BareMetalHost", name, {
      spec: { bootMACAddress: "02:00:00:00:00:ff", ...spec },
      status,
    });
  }

  claim(name: string, { template = "t", renderedData, metadata = {} }: Any = {}): Any {
    const status = renderedData === undefined ? {} : { status: { renderedData: { name: renderedData } } };
    return this.#put(DATA_CLAIMS_PATH, "Metal3DataClaim", name, {
      metadata,
      spec: { template: { name: template } },
      ...status,
    });
  }

  data(name: string, { index, claim, template = "t", spec = {}, metadata = {} }: Any): Any {
    return this.#put(MACHINE_DATAS_PATH, "Metal3Data", name, {
      metadata,
      spec: { index, claim: { name: claim }, template: { name: template }, ...spec },
    });
  }

  pool(name: string): Any {
    return this.#put(ADDRESS_POOLS_PATH, "AddressPool", name, { spec: { network: "blue" } });
  }

  /** Answers an IPAddressClaim as a provider does. */
  answer(claim: string, address: string, gateway = "10.0.0.1"): void {
    const known = this.addressClaim(claim);
    const { poolRef } = known.spec;
    const spec = { claimRef: { name: claim }, poolRef, address, prefix: 24, gateway };
    this.#put(ADDRESSES_PATH, "IPAddress", claim, { spec });
    this.change(ADDRESS_CLAIMS_PATH, claim, (one) => {
      one.status = { addressRef: { name: claim } };
    });
  }

  /** Changes an object past the rules of the server. */
  change(collection: string, name: string, edit: (object: Any) => void): void {
    const known = structuredClone(this.#at(collection, name));
    edit(known);
    this.api.put(namespacedPath(collection, NAMESPACE), known);
  }

  remove(collection: string, name: string): void {
    this.api.remove(namespacedPath(collection, NAMESPACE, name));
  }

  readTemplate = (name: string): Any => this.#at(DATA_TEMPLATES_PATH, name);
  readClaim = (name: string): Any => this.#at(DATA_CLAIMS_PATH, name);
  readData = (name: string): Any => this.#at(MACHINE_DATAS_PATH, name);
  readMachine = (name: string): Any => this.#at(MACHINES_PATH, name);
  readHost = (name: string): Any => this.#at(HOSTS_PATH, name);
  addressClaim = (name: string): Any => this.#at(ADDRESS_CLAIMS_PATH, name);

  /** Somebody creates Secrets that a machine names. */
  putSecrets(...names: string[]): void {
    for (const name of names) this.#put(SECRETS_PATH, "Secret", name, { data: {} });
  }

  /** The text in a Secret; undefined: there is no such Secret. */
  secret(name: string, key: "metaData" | "networkData"): string | undefined {
    const text = this.#at(SECRETS_PATH, name)?.data?.[key];
    return text === undefined ? undefined : Buffer.from(text, "base64").toString();
  }

  /** Every object of a resource, in the order of names. */
  all(collection: string): Any[] {
    const prefix = `${namespacedPath(collection, NAMESPACE)}/`;
    return [...this.api.objects].filter(([path]) => path.startsWith(prefix)).map(([, object]) => object);
  }

  /** `claim: index` of every data object, by its spec. */
  indexes(template = "t"): Record<string, number> {
    const datas = this.all(MACHINE_DATAS_PATH).filter(({ spec }) => spec.template.name === template);
    return Object.fromEntries(datas.map(({ spec }) => [spec.claim.name, spec.index]));
  }

  /** Reasons of the events of an object. */
  reasonsOf(name: string): string[] {
    return this.all(EVENTS_PATH)
      .filter(({ involvedObject }) => involvedObject.name === name)
      .map(({ reason }) => reason);
  }

  #reserve(key: string): PoolOutcome {
    if (this.directAddress === null) return { kind: "waiting", reason: "WaitingForAddress", message: "no ledger here" };
    const result = { address: this.directAddress, prefix: 24, gateway: null, dnsServers: [] };
    this.ledger.set(key, { kind: "given", result });
    return { kind: "given", result };
  }

  #at(collection: string, name: string): Any {
    return this.api.at(namespacedPath(collection, NAMESPACE, name));
  }

  #put(collection: string, kind: string, name: string, { metadata = {}, ...parts }: Any): Any {
    const apiVersion = collection.split("/").slice(2, 4).join("/");
    const object = { apiVersion, kind, metadata: { name, namespace: NAMESPACE, ...metadata }, ...parts };
    return this.api.put(namespacedPath(collection, NAMESPACE), object);
  }
}

export const PATHS = {
  claims: DATA_CLAIMS_PATH,
  datas: MACHINE_DATAS_PATH,
  templates: DATA_TEMPLATES_PATH,
  machines: MACHINES_PATH,
  hosts: HOSTS_PATH,
  secrets: SECRETS_PATH,
  addressClaims: ADDRESS_CLAIMS_PATH,
} as const;

/** Names an object as an owner. */
export function ownerOf(kind: string, { metadata }: Any): Any {
  return { apiVersion: DATA_API_VERSION, kind, name: metadata.name, uid: metadata.uid };
}

/** A definition that checks nothing. */
function definition(group: string, version: string, kind: string, plural = `${kind.toLowerCase()}s`): Any {
  const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List` },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: "object", properties: { spec: anything, status: anything } } },
        },
      ],
    },
  };
}

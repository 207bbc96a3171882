import { createHash } from "node:crypto";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { CAPI_GROUP, CLUSTER_NAME_LABEL, capiPaths } from "../../kube/cluster-api.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import {
  DATA_CLAIMS_PATH,
  DATA_TEMPLATES_PATH,
  HOSTS_PATH,
  INDEXES_OF_ANNOTATION,
  INFRASTRUCTURE_GROUP,
  MACHINE_DATAS_PATH,
} from "../../kube/metal3.ts";
import { NAME_CHARS_MAX } from "../../kube/object-names.ts";
import {
  type DataClaimView,
  type DataTemplateView,
  type MachineDataView,
  projectDataClaim,
  projectDataTemplate,
  projectMachineData,
} from "../../kube/views/machine-data-view.ts";
import {
  type HostView,
  type Metal3MachineView,
  type NamedView,
  projectHost,
  projectMetal3Machine,
  projectNamed,
} from "../../kube/views/metal3-machine-view.ts";
import { type MachineTemplateSpec, readMachineTemplate } from "../../metadata/documents/machine-template.ts";
import type { MachineCaches } from "../capi/machine-caches.ts";
import { type FollowedCache, type FollowedLog, FollowedResources } from "../followed-resources.ts";
import { claimNameOf, readDataName } from "./data-bodies.ts";
import { TemplateIndexes } from "./template-indexes.ts";
import type { WorkQueue } from "./work-queue.ts";

export interface DataWorldOptions {
  readonly api: KubeApi;
  readonly clusters: MachineCaches["clusters"];
  readonly queue: WorkQueue;
  /** A template, or an index of it, has changed. Key of the template. */
  readonly onTemplate: (key: string) => void;
  readonly onDataGone: (uid: string) => void;
  readonly onChange: () => void;
  readonly log: FollowedLog;
}

export interface ReadTemplate {
  /** Empty where there is a problem. */
  readonly spec: MachineTemplateSpec;
  readonly problem: string | null;
  /** Equal exactly if metaData and networkData are. */
  readonly hash: string;
}

/** More than a template that is rendered can have. */
const CANONICAL_LEVELS_MAX = 128;

interface Located {
  readonly namespace: string;
}

/** The copies of everything that machine data is about, what belongs together in them, and whom a change concerns. */
export class DataWorld {
  readonly caches: DataCaches;
  readonly indexes = new TemplateIndexes();
  readonly #options: DataWorldOptions;
  readonly #datasByClaim = new Map<string, Set<string>>();
  readonly #machinesByHost = new Map<string, Set<string>>();
  readonly #read = new WeakMap<DataTemplateView, ReadTemplate>();

  constructor(options: DataWorldOptions) {
    this.#options = options;
    this.caches = new DataCaches(
      options.api,
      {
        template: (item, previous) => this.#templateChanged(item, previous),
        claim: (item, previous) => this.#claimChanged(item, previous),
        data: (item, previous) => this.#dataChanged(item, previous),
        metal3Machine: (item, previous) => this.#machineChanged(item, previous),
        host: (item, previous) => this.#hostChanged((item ?? previous) as HostView),
        changed: options.onChange,
      },
      options.log,
    );
  }

  dataAt({ namespace }: Located, name: string): MachineDataView | undefined {
    return this.caches.datas.items.get(`${namespace}/${name}`);
  }

  /** Data objects of whichever claim has, or had, the name. */
  datasOfClaim({ key }: Pick<DataClaimView, "key">): MachineDataView[] {
    return [...(this.#datasByClaim.get(key) ?? [])].flatMap((one) => this.caches.datas.items.get(one) ?? []);
  }

  /** Why objects of the cluster that a label names are left alone; null: they are not. */
  clusterProblem({ labels, namespace }: Located & { readonly labels: Readonly<Record<string, string>> }) {
    const { clusters } = this.#options;
    const name = labels[CLUSTER_NAME_LABEL];
    // Without Cluster API's definitions nobody can pause a cluster.
    if (!name || clusters.missing) return null;
    const cluster = clusters.items.get(`${namespace}/${name}`);
    if (cluster === undefined) return `Cluster ${namespace}/${name} does not exist`;
    return cluster.paused ? `Cluster ${namespace}/${name} is paused` : null;
  }

  readTemplate(view: DataTemplateView): ReadTemplate {
    let read = this.#read.get(view);
    if (read === undefined) {
      const spec = isSeries(view.series)
        ? readMachineTemplate(view.spec)
        : {
            problem: `annotation ${INDEXES_OF_ANNOTATION} is ${JSON.stringify(view.series)}: expected the name of a Metal3DataTemplate of this namespace; correct it, or remove it`,
          };
      const { metaData = null, networkData = null } = view.spec;
      const hash = createHash("sha256").update(canonical({ metaData, networkData })).digest("hex");
      read =
        "problem" in spec && typeof spec.problem === "string"
          ? { spec: {}, problem: spec.problem, hash }
          : { spec: spec as MachineTemplateSpec, problem: null, hash };
      this.#read.set(view, read);
    }
    return read;
  }

  /** The index is about to be written into the claim, which the copy does not show yet. `series`: `namespace/name`. */
  noteIntent(claimUid: string, series: string, index: number): void {
    this.indexes.hold(`intent ${claimUid}`, series, index);
  }

  forgetIntent(claimUid: string): void {
    this.indexes.drop(`intent ${claimUid}`);
  }

  #templateChanged(item: DataTemplateView | null, previous: DataTemplateView | undefined): void {
    const { queue, onTemplate } = this.#options;
    const { key, namespace, name } = (item ?? previous) as DataTemplateView;
    onTemplate(key);
    if (item !== null && previous !== undefined && this.#isSame(item, previous)) return;
    for (const claim of this.caches.claims.items.values())
      if (claim.namespace === namespace && claim.template.name === name) queue.mark("claims", claim.key);
    for (const data of this.caches.datas.items.values())
      if (data.namespace === namespace && data.template.name === name) queue.mark("datas", data.key);
  }

  /** Whether only its status is another. */
  #isSame(item: DataTemplateView, previous: DataTemplateView): boolean {
    return (
      item.paused === previous.paused &&
      item.series === previous.series &&
      item.deletionTimestamp === previous.deletionTimestamp &&
      this.readTemplate(item).hash === this.readTemplate(previous).hash
    );
  }

  #claimChanged(item: DataClaimView | null, previous: DataClaimView | undefined): void {
    const { queue, onTemplate } = this.#options;
    const claim = (item ?? previous) as DataClaimView;
    const { key, uid, namespace, template, renderedData } = claim;
    const templateKey = `${namespace}/${template.name}`;
    const named = renderedData === null ? null : readDataName(renderedData);
    const isGoing = item === null || item.deletionTimestamp !== null;
    if (isGoing || named === null) this.indexes.drop(`claim ${uid}`);
    else this.indexes.hold(`claim ${uid}`, `${namespace}/${named.series}`, named.index);
    if (item === null || renderedData !== null) this.forgetIntent(uid);
    queue.mark("claims", key);
    queue.mark("machines", key);
    queue.mark("vms", key);
    if (renderedData !== null) queue.mark("datas", `${namespace}/${renderedData}`);
    // An index is free again.
    if (item === null) onTemplate(templateKey);
  }

  #dataChanged(item: MachineDataView | null, previous: MachineDataView | undefined): void {
    const { queue, onTemplate } = this.#options;
    const data = (item ?? previous) as MachineDataView;
    const { key, uid, namespace } = data;
    const templateKey = `${namespace}/${data.template.name}`;
    if (item === null) {
      this.indexes.drop(`data ${uid}`);
      this.#options.onDataGone(uid);
    } else this.indexes.hold(`data ${uid}`, `${namespace}/${data.series}`, data.index);
    if (previous !== undefined) unlink(this.#datasByClaim, `${namespace}/${claimNameOf(previous)}`, key);
    const claimKey = `${namespace}/${claimNameOf(data)}`;
    if (item !== null) link(this.#datasByClaim, claimKey, key);
    queue.mark("datas", key);
    queue.mark("claims", claimKey);
    queue.mark("machines", claimKey);
    onTemplate(templateKey);
  }

  #machineChanged(item: Metal3MachineView | null, previous: Metal3MachineView | undefined): void {
    const { queue } = this.#options;
    const { key, namespace } = (item ?? previous) as Metal3MachineView;
    if (previous?.host != null) unlink(this.#machinesByHost, `${namespace}/${previous.host}`, key);
    if (item?.host != null) link(this.#machinesByHost, `${namespace}/${item.host}`, key);
    this.#markMachine(key, namespace);
    queue.mark("claims", key);
  }

  #hostChanged({ key, namespace }: HostView): void {
    for (const machine of this.#machinesByHost.get(key) ?? []) this.#markMachine(machine, namespace);
  }

  #markMachine(key: string, namespace: string): void {
    const { queue } = this.#options;
    queue.mark("machines", key);
    const data = this.caches.claims.items.get(key)?.renderedData;
    if (data != null) queue.mark("datas", `${namespace}/${data}`);
  }
}

function isSeries(name: string): boolean {
  return /^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/.test(name) && name.length <= NAME_CHARS_MAX;
}

function link(map: Map<string, Set<string>>, from: string, to: string): void {
  const known = map.get(from);
  if (known === undefined) map.set(from, new Set([to]));
  else known.add(to);
}

function unlink(map: Map<string, Set<string>>, from: string, to: string): void {
  const known = map.get(from);
  known?.delete(to);
  if (known?.size === 0) map.delete(from);
}

/** Sorted keys: the order of a server's says nothing. Of deeper values than are rendered, the upper part. */
function canonical(value: unknown, levels = CANONICAL_LEVELS_MAX): string {
  if (levels === 0) return "";
  if (Array.isArray(value)) return `[${value.map((one) => canonical(one, levels - 1)).join()}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? "null";
  const entries = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key], levels - 1)}`);
  return `{${entries.join()}}`;
}

/** Called for every change; a deletion has `item` null. `previous` has the same UID. */
type OnChange<T> = (item: T | null, previous: T | undefined) => void;

interface DataEvents {
  readonly template: OnChange<DataTemplateView>;
  readonly claim: OnChange<DataClaimView>;
  readonly data: OnChange<MachineDataView>;
  readonly metal3Machine: OnChange<Metal3MachineView>;
  readonly host: OnChange<HostView>;
  readonly changed: () => void;
}

type Resource =
  | "metal3datatemplates"
  | "metal3dataclaims"
  | "metal3datas"
  | "metal3machines"
  | "machines"
  | "baremetalhosts";

/** What the API server shows of Metal3's machines, their data and their hosts. Everything by `namespace/name`. */
class DataCaches extends FollowedResources<Resource> {
  readonly templates: FollowedCache<DataTemplateView>;
  readonly claims: FollowedCache<DataClaimView>;
  readonly datas: FollowedCache<MachineDataView>;
  readonly metal3Machines: FollowedCache<Metal3MachineView>;
  readonly machines: FollowedCache<NamedView>;
  readonly hosts: FollowedCache<HostView>;

  constructor(api: KubeApi, events: DataEvents, log: FollowedLog) {
    super(api, log, events.changed);
    this.templates = this.follow<DataTemplateView>("metal3datatemplates", DATA_TEMPLATES_PATH, {
      project: projectDataTemplate,
      ...hooksOf(events.template),
    });
    this.claims = this.follow<DataClaimView>("metal3dataclaims", DATA_CLAIMS_PATH, {
      project: projectDataClaim,
      ...hooksOf(events.claim),
    });
    this.datas = this.follow<MachineDataView>("metal3datas", MACHINE_DATAS_PATH, {
      project: projectMachineData,
      ...hooksOf(events.data),
    });
    const [machinesPath, ...otherMachines] = capiPaths(INFRASTRUCTURE_GROUP, "metal3machines");
    this.metal3Machines = this.follow<Metal3MachineView>("metal3machines", machinesPath, {
      otherPaths: otherMachines,
      project: projectMetal3Machine,
      ...hooksOf(events.metal3Machine),
    });
    const [capiPath, ...otherCapi] = capiPaths(CAPI_GROUP, "machines");
    this.machines = this.follow<NamedView>("machines", capiPath, {
      otherPaths: otherCapi,
      metadataOnly: true,
      project: (object) => projectNamed(object, "Machine"),
      onUpsert: () => {},
      onDelete: () => {},
    });
    this.hosts = this.follow<HostView>("baremetalhosts", HOSTS_PATH, {
      project: projectHost,
      ...hooksOf(events.host),
    });
  }

  /** Why nothing can be decided from the copies; null: it can. */
  override get doubt(): string | null {
    const missing = [this.templates, this.claims, this.datas].find((one) => one.missing);
    return missing === undefined ? super.doubt : `${missing.path} is not served`;
  }
}

function hooksOf<T>(change: OnChange<T>) {
  return {
    onUpsert: (item: T, previous: T | undefined) => change(item, previous),
    onDelete: (item: T) => change(null, item),
  };
}

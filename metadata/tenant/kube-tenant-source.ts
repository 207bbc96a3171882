import type { Buffer } from "node:buffer";
import type { IdentityView, IdentityVm } from "../../identity/wire.ts";
import type { EventWriter } from "../../kube/events.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { NODES_PATH, objectPath } from "../../kube/objects.ts";
import { Reflector, type ReflectorTimings } from "../../kube/reflector.ts";
import {
  ANNOTATIONS,
  isTenantId,
  PASSWORDS_CONFIG_MAP,
  referencesIn,
  TENANT_ID_ANNOTATION,
} from "../../kube/views/content-annotations.ts";
import { objectAt, readTexts } from "../../kube/views/object-metadata.ts";
import {
  NAMESPACES_PATH,
  type NamespaceView,
  projectNamespace,
  tenantObjectKey,
} from "../../kube/views/tenant-objects.ts";
import type { VmiView } from "../../kube/views/vmi-view.ts";
import type { Log } from "../../platform/log.ts";
import { timeoutSignal } from "../../platform/time.ts";
import { RecentKeys } from "../../platform/warn-once.ts";
import type { VmDocuments } from "../documents/vm-template.ts";
import { CachedReads } from "./cached-reads.ts";
import { readContent, type TenantObjects } from "./content.ts";
import { DataReader } from "./data-objects.ts";
import { keepGuestPassword } from "./guest-passwords.ts";
import { NamedObjects, type ObjectReference, type Place } from "./named-objects.ts";
import type { Backend, TenantSource, TenantView } from "./tenant-source.ts";
import { VmDirectory, type VmObjects } from "./vm-directory.ts";
import { describeUnconfigured, linksOf } from "./vm-links.ts";
import { type TemplateRequest, VmTemplates } from "./vm-templates.ts";

/** For the namespaces to be known, ms. */
const NAMESPACES_MS_MAX = 5_000;
const PASSWORDS: ObjectReference = { kind: "ConfigMap", name: PASSWORDS_CONFIG_MAP };
const CLUSTER_DOMAIN = "cluster.local";
/** For a namespace that the watch does not have, ms. */
const READ_MS_MAX = 3_000;

interface ServiceBackends {
  start(): void | Promise<void>;
  stop(): void | Promise<void>;
  /** null: none. */
  backendOf(network: string): Promise<Backend | null>;
}

export interface KubeTenantOptions {
  readonly api: KubeApi;
  /** This node's name in Kubernetes. */
  readonly node: string;
  readonly log: Pick<Log, "info" | "warn">;
  readonly events: Pick<EventWriter, "warn">;
  /** null: no network has one. */
  readonly serviceBackends: ServiceBackends | null;
  /** Default `cluster.local`. */
  readonly clusterDomain?: string;
  readonly timings?: Partial<ReflectorTimings>;
  /** Default 5 s. */
  readonly syncMsMax?: number;
}

/** Two watches, of namespaces and of this node's VMIs; all else is read by name when a guest asks. */
export class KubeTenantSource implements TenantSource {
  readonly #options: KubeTenantOptions;
  readonly #namespaces: Reflector<NamespaceView>;
  readonly #vms: VmDirectory;
  readonly #objects: NamedObjects;
  readonly #data: DataReader;
  /** Objects that may not be read and were already reported. */
  readonly #told = new RecentKeys();
  readonly #zones: NodeZones;
  readonly #templates = new VmTemplates();

  constructor(options: KubeTenantOptions) {
    const { api, log } = options;
    this.#options = options;
    this.#namespaces = new Reflector<NamespaceView>({
      api,
      log,
      path: NAMESPACES_PATH,
      query: { resourceVersion: "0" },
      metadataOnly: true,
      forbiddenIsEmpty: true,
      project: projectNamespace,
      onUpsert: () => {},
      onDelete: () => {},
      ...(options.timings ? { timings: options.timings } : {}),
    });
    const { syncMsMax: firstReadMsMax } = options;
    this.#vms = new VmDirectory({ ...options, firstReadMsMax });
    this.#objects = new NamedObjects(api, firstReadMsMax);
    this.#data = new DataReader(api, firstReadMsMax);
    this.#zones = new NodeZones(api);
  }

  /** Begins to watch; does not wait for the API. */
  async start(): Promise<void> {
    this.#namespaces.start();
    this.#vms.start();
    await this.#options.serviceBackends?.start();
  }

  /** Ends every watch. The API's client stays open. */
  async stop(): Promise<void> {
    await Promise.all([this.#namespaces.stop(), this.#vms.stop(), this.#options.serviceBackends?.stop()]);
  }

  async viewOf(identity: IdentityView): Promise<TenantView> {
    const namespace = identity.vm?.namespace ?? identity.pods[0]?.namespace ?? null;
    const known = namespace === null ? null : await this.#namespace(namespace);
    const projectId = namespace === null ? null : projectIdOf(namespace, known);
    if (identity.vm === null) return { ...NOTHING, projectId };
    const found = await this.#vms.find(identity.vm);
    const place = { namespace: identity.vm.namespace, uid: known?.uid ?? "" };
    this.#warnTenantId(known, identity.vm, found);
    const { vmi, vm } = found;
    const annotations = [vm?.annotations, vmi?.annotations].filter((one) => one !== undefined);
    const named = referencesIn(annotations);
    const objects = await this.#objects.read(place, [...named, PASSWORDS]);
    const { template, problems, forbidden, ...content } = readContent(annotations, objects);
    for (const { reason, message } of problems) this.#warn(identity.vm, found, reason, message);
    const untold = this.#untold(place, named, forbidden);
    if (untold.length > 0) this.#warnForbidden(untold, identity.vm, found);
    const links = vmi === null ? [] : linksOf(vmi, identity);
    const templated = await this.#templated(place, template, { identity, vm: identity.vm, found, links });
    const unconfigured = templated.networkDocument === null ? describeUnconfigured(identity.interfaces, links) : null;
    if (unconfigured !== null) this.#warn(identity.vm, found, "MetadataInterfaceUnconfigured", `${unconfigured}.`);
    return {
      ...content,
      // What is said of this VM counts before what is said of all.
      meta: { ...templated.meta, ...content.meta },
      networkDocument: templated.networkDocument,
      firmwareUuid: vmi?.firmwareUuid ?? null,
      hostname: vmi === null ? content.hostname : this.#hostname(vmi, identity.vm, content.hostname),
      projectId,
      links,
      availabilityZone: vmi?.node ? await this.#zones.zoneOf(vmi.node) : null,
      instanceType: vmi?.instanceType ?? null,
      rootDevice: vmi?.rootDevice ?? null,
      password: storedPassword(objects, passwordKey(identity.vm, found)),
    };
  }

  /** Without what the VM's template would add, where that is not to be had: the guest boots all the same. */
  async #templated(
    place: Place,
    template: string | null,
    request: Omit<TemplateRequest, "template">,
  ): Promise<VmDocuments> {
    if (template === null) return UNTEMPLATED;
    const found = await this.#templates.documentsOf(this.#data.of(place), { ...request, template });
    if (!("problem" in found)) return found;
    const message = `annotation ${ANNOTATIONS.dataTemplate}: ${found.problem}. The guest gets none of the template.`;
    this.#warn(request.vm, request.found, "MetadataDataTemplateUnavailable", message);
    return UNTEMPLATED;
  }

  async backendOf(network: string): Promise<Backend | null> {
    return (await this.#options.serviceBackends?.backendOf(network)) ?? null;
  }

  async keepPassword(identity: IdentityView, password: Buffer): Promise<"kept" | "taken" | "refused"> {
    const { vm } = identity;
    if (vm === null) return "refused";
    const known = await this.#namespace(vm.namespace);
    const found = await this.#vms.find(vm);
    const key = passwordKey(vm, found);
    if (key === null) return "refused";
    const kept = await keepGuestPassword(this.#options.api, { namespace: vm.namespace, key, password });
    if (kept.kind === "refused") {
      const message = `the guest's password is not kept in ConfigMap ${PASSWORDS_CONFIG_MAP}: ${kept.problem}`;
      this.#warn(vm, found, "MetadataPasswordRefused", message);
    }
    // The guest reads what it has just sent.
    this.#objects.forget({ namespace: vm.namespace, uid: known?.uid ?? "" }, PASSWORDS);
    return kept.kind;
  }

  /** null: no right to read it, or it is not there. One that is new may be unknown to the watch. */
  async #namespace(name: string): Promise<NamespaceView | null> {
    const { api, syncMsMax = NAMESPACES_MS_MAX } = this.#options;
    const namespaces = this.#namespaces;
    if (!namespaces.synced && !namespaces.forbidden) await namespaces.waitSynced(timeoutSignal(api.clock, syncMsMax));
    if (!namespaces.synced && !namespaces.forbidden)
      throw new ApiAway("the namespaces are not known yet: the API server does not say");
    const known = namespaces.items.get(name);
    if (known !== undefined || namespaces.forbidden) return known ?? null;
    const path = objectPath(NAMESPACES_PATH, name);
    const deadlineMs = api.clock.monotonicMs() + READ_MS_MAX;
    const read = await new ObjectClient(api, "add").get(path, deadlineMs);
    return read.kind === "present" ? projectNamespace(read.object) : null;
  }

  /** KubeVirt's own fields first, as the launcher pod has them. null: none is asked for. */
  #hostname({ hostname, subdomain }: VmiView, { namespace, name }: IdentityVm, asked: string | null) {
    if (subdomain === null) return hostname ?? asked;
    const domain = this.#options.clusterDomain ?? CLUSTER_DOMAIN;
    return `${hostname ?? name}.${subdomain}.${namespace}.svc.${domain}`;
  }

  #warnTenantId(namespace: NamespaceView | null, vm: IdentityVm, found: VmObjects): void {
    if (namespace === null || namespace.tenantId === null || isTenantId(namespace.tenantId)) return;
    const message =
      `annotation ${TENANT_ID_ANNOTATION} of namespace ${namespace.key}: ` +
      `${JSON.stringify(namespace.tenantId.slice(0, 100))} cannot be sent as X-Tenant-ID, so the namespace's UID is; ` +
      "use 1 to 255 visible ASCII characters without space and comma";
    this.#warn(vm, found, "MetadataTenantIdInvalid", message);
  }

  /** Forbidden objects that were not reported yet. `named`: all that were requested. */
  #untold(
    { namespace }: Place,
    named: readonly ObjectReference[],
    forbidden: readonly ObjectReference[],
  ): ObjectReference[] {
    const keyOf = ({ kind, name }: ObjectReference) => `${namespace} ${tenantObjectKey(kind, name)}`;
    const refused = new Set(forbidden.map(keyOf));
    for (const key of named.map(keyOf)) if (!refused.has(key)) this.#told.forget(key);
    return forbidden.filter((one) => this.#told.addIfNew(keyOf(one)));
  }

  #warnForbidden(objects: readonly ObjectReference[], vm: IdentityVm, found: VmObjects): void {
    const { namespace } = vm;
    const names = objects.map(({ kind, name }) => `${kind} ${name}`).join(" and ");
    const adding = objects
      .filter(({ kind }) => kind === "Secret")
      .map(({ name }) => ({ op: "add", path: "/rules/0/resourceNames/-", value: name }));
    const naming =
      adding.length === 0
        ? ""
        : `, and name the Secret there: kubectl patch role -n ${namespace} holdfast-metadata --type=json -p '${JSON.stringify(adding)}'`;
    const message =
      `the metadata service may not read ${names} of namespace ${namespace}, so the guest gets none of it; apply ` +
      `deploy/metadata/tenant.yaml once (kubectl apply -n ${namespace} -f deploy/metadata/tenant.yaml)${naming}`;
    this.#warn(vm, found, "MetadataForbidden", message);
  }

  #warn({ namespace, name }: IdentityVm, { vm, vmi }: VmObjects, reason: string, message: string): void {
    const about = vm ?? vmi;
    if (about === null) return;
    const kind = vm === null ? "VirtualMachineInstance" : "VirtualMachine";
    const object = { apiVersion: "kubevirt.io/v1", kind, namespace, name, uid: about.uid };
    this.#options.events.warn(object, reason, message);
  }
}

const UNTEMPLATED: VmDocuments = { meta: {}, networkDocument: null };

const NOTHING: TenantView = {
  userData: null,
  vendorData: null,
  networkDocument: null,
  publicKeys: [],
  meta: {},
  firmwareUuid: null,
  hostname: null,
  publicIPv4: null,
  publicHostname: null,
  projectId: null,
  links: [],
  availabilityZone: null,
  instanceType: null,
  rootDevice: null,
  password: null,
};

/** Of an unreadable namespace a tenant that no other can have: its bare name could be another's UID or tenant-id. */
function projectIdOf(name: string, namespace: NamespaceView | null): string {
  if (namespace === null) return `namespace:${name}`;
  const { uid, tenantId } = namespace;
  return tenantId !== null && isTenantId(tenantId) ? tenantId : uid;
}

/** null: nothing tells this VM from another of its name. */
function passwordKey({ uid, vmiUid }: IdentityVm, { vm, vmi }: VmObjects): string | null {
  return vm?.uid || uid || vmi?.uid || vmiUid;
}

function storedPassword(objects: TenantObjects, key: string | null): TenantView["password"] {
  const kept = objects.find("ConfigMap", PASSWORDS_CONFIG_MAP);
  if (key === null || kept === undefined || kept === "forbidden") return null;
  return { stored: kept.data.get(key) ?? null };
}

const ZONE_LABEL = "topology.kubernetes.io/zone";
/** A node's zone is believed for so long, ms. */
const ZONE_BELIEVED_MS = 10 * 60_000;
/** What could not be read is asked for again after this, ms. */
const ZONE_FAILED_MS = 60_000;
/** A guest waits so long, ms, for its zone: it is served without one as well. */
const ZONE_DEADLINE_MS = 1_000;

/** Zones of nodes, by their label: those of this node, and of the others between which VMs move. */
class NodeZones {
  readonly #objects: ObjectClient;
  readonly #zones: CachedReads<string | null | undefined>;

  constructor(api: KubeApi) {
    this.#objects = new ObjectClient(api);
    this.#zones = new CachedReads(api, ZONE_DEADLINE_MS);
  }

  /** null: it has none, or it cannot be read. */
  async zoneOf(node: string): Promise<string | null> {
    const read = (believedMs: number) =>
      this.#zones.read(node, (deadlineMs) => this.#read(node, deadlineMs), believedMs);
    const zone = await read(ZONE_BELIEVED_MS);
    return (zone === undefined ? await read(ZONE_FAILED_MS) : zone) ?? null;
  }

  async #read(node: string, deadlineMs: number): Promise<string | null | undefined> {
    const read = await this.#objects.tryGet(objectPath(NODES_PATH, node), deadlineMs);
    const isNode = read.kind === "present" && Object.keys(objectAt(read.object, "metadata", "Node")).length > 0;
    return isNode ? readTexts(read.object, "labels").get(ZONE_LABEL) || null : undefined;
  }
}

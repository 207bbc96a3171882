import type { EventObject } from "../../kube/events.ts";
import { ApiAway, type KubeApi } from "../../kube/kube-api.ts";
import { NADS_PATH } from "../../kube/objects.ts";
import { Reflector } from "../../kube/reflector.ts";
import { readTexts } from "../../kube/views/object-metadata.ts";
import { DefinitionCatalog } from "../../networks/definition-catalog.ts";
import { type NadView, projectNad } from "../../networks/nad-view.ts";
import type { NetworkOwner } from "../../networks/network-owner.ts";
import { readRecordedOwner } from "../../networks/record-owner.ts";
import {
  readNadServiceReference,
  readUdnServiceReference,
  type ServiceReference,
} from "../../networks/udn/service-reference.ts";
import { SERVICE_ANNOTATION, UDN_API_VERSION, type UdnView } from "../../networks/udn/udn-object.ts";
import { UdnWatch } from "../../networks/udn/udn-watch.ts";
import type { Log } from "../../platform/log.ts";
import { type Timer, timeoutSignal } from "../../platform/time.ts";

/** A guest's request waits so long, ms, for the networks to be known; its client gives up after 10 s. */
const SYNC_MS_MAX = 5_000;
/** How long, ms, the owner of a network is believed before it is read again. */
const OWNER_BELIEVED_MS = 10_000;
/** After a change, ms: many come together. */
const LEARN_SOON_MS = 20;
export const NAD_KIND = "NetworkAttachmentDefinition";

export interface NetworkReference {
  readonly reference: Exclude<ServiceReference, { kind: "none" }>;
  readonly by: EventObject;
  /** The (Cluster)UserDefinedNetwork that it is; null: a NetworkAttachmentDefinition refers. */
  readonly udn: UdnView | null;
}

interface NadWithService extends NadView {
  readonly service: string | null;
}

export interface ServiceReferencesOptions {
  readonly api: KubeApi;
  readonly log: Pick<Log, "info" | "warn">;
  readonly onChange?: () => void;
}

/** By their (Cluster)UserDefinedNetwork, or by the NetworkAttachmentDefinition of ours that defines them. */
export class ServiceReferences {
  readonly #udns: UdnWatch;
  readonly #nads: Reflector<NadWithService>;
  readonly #catalog: DefinitionCatalog;
  readonly #api: KubeApi;
  /** By network, as read last. */
  readonly #owners = new Map<string, { readonly owner: NetworkOwner | null; readonly readMs: number }>();
  #learning: Timer | null = null;
  /** By network; null: to be made anew. */
  #byNetwork: Map<string, UdnView> | null = null;

  constructor({ api, log, onChange }: ServiceReferencesOptions) {
    this.#api = api;
    this.#catalog = new DefinitionCatalog(api.clock);
    this.#udns = new UdnWatch({
      api,
      log,
      onChange: () => {
        this.#byNetwork = null;
        this.#learnSoon();
        onChange?.();
      },
    });
    this.#nads = new Reflector<NadWithService>({
      api,
      log,
      path: NADS_PATH,
      query: { resourceVersion: "0" },
      forbiddenIsEmpty: true,
      project: (object) => ({
        ...projectNad(object),
        service: readTexts(object, "annotations").get(SERVICE_ANNOTATION) ?? null,
      }),
      onUpsert: (nad) => {
        this.#catalog.upsert(nad);
        if (nad.service !== null) this.#learnSoon();
        onChange?.();
      },
      onDelete: ({ key }) => {
        this.#catalog.remove(key);
        onChange?.();
      },
    });
  }

  start(): void {
    this.#udns.start();
    this.#nads.start();
  }

  async stop(): Promise<void> {
    this.#learning?.cancel();
    await Promise.all([this.#udns.stop(), this.#nads.stop()]);
  }

  /** null: it refers to none. Waits for what is not known yet; throws ApiAway when that takes too long. */
  async of(network: string): Promise<NetworkReference | null> {
    await this.#known();
    const owner = await this.#learnOwner(network);
    const defining = this.#definingNad(network);
    const udn = this.#udnOf(network, owner);
    if (udn !== null) {
      const reference = readUdnServiceReference(udn);
      const { kind, namespace, name, uid } = udn;
      if (reference.kind !== "none")
        return { reference, by: { apiVersion: UDN_API_VERSION, kind, namespace, name, uid }, udn };
    }
    if (defining === null) return null;
    const { namespace, name, uid } = defining;
    const reference = readNadServiceReference(defining.service, namespace);
    if (reference.kind === "none") return null;
    return {
      reference,
      by: { apiVersion: "k8s.cni.cncf.io/v1", kind: NAD_KIND, namespace, name, uid },
      udn: null,
    };
  }

  /** Owners are read before anybody asks, so that they are known when the API server is away. */
  #learnSoon(): void {
    this.#learning?.cancel();
    const learn = () => {
      this.#learnReferring().catch(() => {}); // Whoever asks reads it then.
    };
    this.#learning = this.#api.clock.timer(LEARN_SOON_MS, learn).unref();
  }

  async #learnReferring(): Promise<void> {
    const referring = new Set<string>();
    for (const view of this.#udns.views())
      if (readUdnServiceReference(view).kind !== "none") referring.add(view.network);
    for (const { key, service } of this.#nads.items.values()) {
      const network = service === null ? null : this.#catalog.networkOfNad(key);
      if (network !== null) referring.add(network);
    }
    for (const network of referring) if (!this.#owners.has(network)) await this.#learnOwner(network);
  }

  /** null: none recorded, or nothing here speaks of it. Throws ApiAway while unread: anybody can claim the name. */
  async #learnOwner(network: string): Promise<NetworkOwner | null> {
    if (this.#udnNamed(network) === null && this.#catalog.namespacesOf(network).length === 0) return null;
    const known = this.#owners.get(network);
    const readMs = this.#api.clock.monotonicMs();
    if (known !== undefined && readMs - known.readMs < OWNER_BELIEVED_MS) return known.owner;
    try {
      const owner = await readRecordedOwner(this.#api, network, readMs + SYNC_MS_MAX);
      this.#owners.set(network, { owner, readMs });
      this.#catalog.setOwner(network, owner);
      return owner;
    } catch (error) {
      if (known === undefined || !(error instanceof ApiAway)) throw error;
      return known.owner;
    }
  }

  /** Only the one that counts: anybody can make another of the same network in a namespace of their own. */
  #definingNad(network: string): NadWithService | null {
    const counting = this.#catalog.definitionOf(network);
    return counting === null ? null : (this.#nads.items.get(counting.by) ?? null);
  }

  /** A network that belongs to another namespace is none of a UserDefinedNetwork's, though the name be equal. */
  #udnOf(network: string, owner: NetworkOwner | null): UdnView | null {
    const udn = this.#udnNamed(network);
    const foreign = udn?.kind === "UserDefinedNetwork" && owner !== null && owner.definedIn !== udn.namespace;
    return foreign ? null : udn;
  }

  #udnNamed(network: string): UdnView | null {
    this.#byNetwork ??= new Map([...this.#udns.views()].map((view) => [view.network, view]));
    return this.#byNetwork.get(network) ?? null;
  }

  async #known(): Promise<void> {
    const nads = this.#nads;
    // Nearly always: a request must not pay for timers.
    if (this.#udns.synced && (nads.synced || nads.missing || nads.forbidden)) return;
    const inTime = timeoutSignal(this.#api.clock, SYNC_MS_MAX);
    const known = await Promise.all([this.#udns.waitSynced(inTime), nads.waitSynced(inTime)]);
    if (known.includes(false)) throw new ApiAway("the networks are not known yet: the API server does not say");
  }
}

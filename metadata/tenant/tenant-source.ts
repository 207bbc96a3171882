/*
 * metadata/tenant/: the content that a VM's owner provides
 *
 *   tenant-source        the port; standalone-source: a node without Kubernetes; kube-tenant-source: with
 *   content              annotations and the objects they name; named-objects, cached-reads: which are read by name;
 *                        node-content: which the daemon of a node without Kubernetes keeps
 *   vm-templates, data-objects   the documents of a VM whose annotation names a template
 *   vm-directory         the VM: this node's are watched; vm-links, instance-of
 *   services-*           the Service that answers instead of Holdfast
 *   passwords, guest-passwords
 */

import type { Buffer } from "node:buffer";
import type { IdentityView } from "../../identity/wire.ts";
import type { PublicKey } from "../documents/instance.ts";
import type { NetworkDocument } from "../documents/machine-template.ts";

/**
 * The source of everything about a VM that the daemon does not know: Kubernetes, or none. Called at each request and
 * answered from memory where that is young enough; rejects only with ApiAway while that is not known yet (the guest
 * gets 503 and retries).
 */
export interface TenantSource {
  viewOf(identity: IdentityView): Promise<TenantView>;
  /** null: Holdfast itself answers requests of the network. */
  backendOf(network: string): Promise<Backend | null>;
  /** Stores the password that a guest posted, durably. taken: another one is stored. Rejects with ApiAway. */
  keepPassword(identity: IdentityView, password: Buffer): Promise<"kept" | "taken" | "refused">;
}

export interface TenantView {
  /** Lower-case; null: not known, so the identity's counts. */
  readonly firmwareUuid: string | null;
  /** null: the VM's name. */
  readonly hostname: string | null;
  /** Where the guest is reached from outside; null: not known. */
  readonly publicIPv4: string | null;
  readonly publicHostname: string | null;
  /** UID of the namespace, or its annotation; null: not known. */
  readonly projectId: string | null;
  /** In the order of the VM's own interfaces; matched by the name in the pod. */
  readonly links: readonly TenantLink[];
  readonly publicKeys: readonly PublicKey[];
  readonly userData: Buffer | null;
  readonly vendorData: string | null;
  /** network_data.json as the VM's template says it; null: it has none, or none that says so. */
  readonly networkDocument: NetworkDocument | null;
  readonly meta: Readonly<Record<string, string>>;
  readonly availabilityZone: string | null;
  readonly instanceType: string | null;
  readonly rootDevice: string | null;
  /** null: no passwords are kept for this VM. */
  readonly password: { readonly stored: Buffer | null } | null;
}

export interface TenantLink {
  /** Name in the pod (`net1`) where it is known; else null. */
  readonly interface: string | null;
  /** Network names (the CNI configuration's), or null where only the interface is known. */
  readonly network: string | null;
  /** Name of the interface in the VM's specification. */
  readonly linkId: string;
  /** The NetworkAttachmentDefinition as the VM names it, `blue` or `shop/blue`; null: it names none. */
  readonly nad: string | null;
  readonly mac: string | null;
  readonly primary: boolean;
}

/** Where requests of a network are sent instead. */
export type Backend =
  | {
      readonly kind: "nova";
      /** `http://10.0.0.5:8775`, without path. */
      readonly url: string;
      /** Empty: that cloud has none. */
      readonly secret: Buffer;
      readonly ca: Buffer | null;
    }
  | {
      readonly kind: "service";
      /** `namespace/name`, for messages. */
      readonly service: string;
      /** Ready endpoints on this node, `10.244.1.7:8080`; empty: 503. */
      readonly endpoints: readonly string[];
      readonly secret: Buffer | null;
    };

import { createHash } from "node:crypto";
import type { AnsweredAddress } from "../../allocations/records.ts";
import type { IdentityInterface, IdentityView } from "../../identity/wire.ts";
import { canonicalMac } from "../../ipam/definition/mac.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { NAME_CHARS_MAX } from "../../kube/object-names.ts";
import { readUuid } from "../../kube/views/vmi-view.ts";
import type { Instance, InstanceAddress, InstanceNetwork } from "../documents/instance.ts";
import type { TenantLink, TenantView } from "./tenant-source.ts";

/** What a guest outside Kubernetes belongs to. */
const NAMESPACE_DEFAULT = "default";
const NAME_DEFAULT = "vm";
/** Of a container ID, as container runtimes show it to people. */
const SHORT_ID_CHARS = 12;

/** What is told to the guest, from who it is and what its owner says. Pure. */
export function instanceOf(identity: IdentityView, tenant: TenantView): Instance {
  const name = nameOf(identity);
  const { namespace, projectId } = projectOf(identity, tenant);
  return {
    uuid: uuidOf(identity, tenant.firmwareUuid),
    name,
    namespace,
    hostname: validHostname(tenant.hostname ?? "") ?? hostnameOfObject(name) ?? NAME_DEFAULT,
    publicIPv4: tenant.publicIPv4,
    publicHostname: tenant.publicHostname,
    projectId,
    networks: networksOf(identity.interfaces, tenant.links),
    publicKeys: tenant.publicKeys,
    userData: tenant.userData,
    vendorData: tenant.vendorData,
    networkDocument: tenant.networkDocument,
    meta: tenant.meta,
    launchIndex: 0,
    availabilityZone: tenant.availabilityZone,
    instanceType: tenant.instanceType,
    rootDevice: tenant.rootDevice,
    password: tenant.password,
  };
}

/** The tenant, as backends know it: what the cluster says, else the namespace's name. */
export function projectOf(
  { vm, pods }: IdentityView,
  { projectId }: Pick<TenantView, "projectId">,
): { readonly namespace: string; readonly projectId: string } {
  const namespace = vm?.namespace || pods[0]?.namespace || NAMESPACE_DEFAULT;
  return { namespace, projectId: projectId ?? namespace };
}

/**
 * The instance ID, lower-case: the firmware's UUID, which the guest sees too; else the UID of the first there is of VM,
 * running instance, claim, pod: the longest-lived first, so that a guest keeps its ID over a restart. What is no UUID
 * (objects outside Kubernetes may have any UID) stands for one that follows from it.
 */
export function uuidOf({ vm, pods, interfaces }: IdentityView, firmwareUuid: string | null): string {
  const firmware = readUuid(firmwareUuid) ?? readUuid(vm?.firmwareUuid);
  if (firmware !== null) return firmware;
  const claim = interfaces.find(({ owner }) => owner.kind === "claim")?.owner.uid;
  const uid = [vm?.uid, vm?.vmiUid, claim, pods[0]?.uid].find((one) => one != null && one !== "");
  if (uid != null) return readUuid(uid) ?? derivedUuid(`uid\0${uid}`);
  return derivedUuid(`container\0${pods[0]?.containerID ?? ""}\0${interfaces[0]?.network ?? ""}`);
}

/** Of the UUIDs that are made here: version 5 wants one that nobody else makes some in. */
const UUID_SPACE = Buffer.from("b6f0a3c47d1e4f5a8c2b9e6d013f7a58", "hex");

/** RFC 9562, 5.5. */
function derivedUuid(name: string): string {
  const bytes = createHash("sha1").update(UUID_SPACE).update(name, "utf8").digest().subarray(0, 16);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function nameOf({ vm, pods, interfaces }: IdentityView): string {
  const claim = interfaces.find(({ owner }) => owner.kind === "claim")?.owner.name;
  return vm?.name || pods[0]?.name || claim || pods[0]?.containerID.slice(0, SHORT_ID_CHARS) || NAME_DEFAULT;
}

/** The interfaces of the VM in its order, as far as it is known, and after them those with addresses of ours alone. */
export function networksOf(
  interfaces: readonly IdentityInterface[],
  links: readonly TenantLink[],
): readonly InstanceNetwork[] {
  const matched = matchLinks(interfaces, links);
  const foreign = foreignLinks(matched, links);
  const rank = ({ link }: { readonly link: TenantLink | null }) => (link === null ? links.length : links.indexOf(link));
  const inOrder = matched.toSorted((a, b) => rank(a) - rank(b));
  const primary = primaryOf(inOrder);
  const ids = new Set<string>();
  return [...inOrder, ...foreign.map((link) => ({ of: null, link }))]
    .toSorted((a, b) => rank(a) - rank(b))
    .map(({ of, link }) =>
      of === null
        ? foreignNetwork(link, uniqueId(link.linkId, ids))
        : {
            network: of.network,
            linkId: uniqueId(link?.linkId || of.interface || of.network, ids),
            mac: link?.mac ?? of.mac,
            mtu: of.mtu,
            addressing: "allocated",
            addresses: of.addresses.flatMap(addressOf),
            routes: of.routes,
            dns: of.dns,
            primary: of === primary,
          },
    );
}

/** Those on networks of others. While it is unclear which one has an address of ours, only that on the pod network. */
function foreignLinks(matched: readonly Matched[], links: readonly TenantLink[]): readonly TenantLink[] {
  const isClear = matched.every(({ link }) => link !== null);
  return links.filter((link) => !matched.some((one) => one.link === link) && (isClear || link.primary));
}

function foreignNetwork({ linkId, nad, mac, primary }: TenantLink, id: string): InstanceNetwork {
  return {
    network: nad ?? linkId,
    linkId: id,
    mac,
    mtu: null,
    addressing: primary ? "dhcp" : "unknown",
    addresses: [],
    routes: [],
    dns: {},
    primary: false,
  };
}

interface Matched {
  readonly of: IdentityInterface;
  readonly link: TenantLink | null;
}

/** Each with its link, if the owner describes it: by its name in the pod, its MAC, or as the last of its network. */
function matchLinks(interfaces: readonly IdentityInterface[], links: readonly TenantLink[]): readonly Matched[] {
  const byName = (of: IdentityInterface) =>
    links.find((link) => link.interface !== null && link.interface === of.interface) ?? null;
  const taken = new Set(interfaces.map(byName));
  const byMac = ({ mac }: IdentityInterface) => {
    const alike = links.filter((link) => !taken.has(link) && isSameMac(link.mac, mac));
    const rivals = interfaces.filter((one) => byName(one) === null && isSameMac(one.mac, mac));
    return alike.length === 1 && rivals.length === 1 ? (alike[0] ?? null) : null;
  };
  const named = interfaces.map((of) => ({ of, link: byName(of) ?? byMac(of) }));
  const free = links.filter((link) => !named.some((one) => one.link === link));
  return named.map(({ of, link }) => {
    if (link !== null) return { of, link };
    const alike = free.filter(({ network }) => network === of.network);
    const rivals = named.filter((one) => one.link === null && one.of.network === of.network);
    return { of, link: alike.length === 1 && rivals.length === 1 ? (alike[0] ?? null) : null };
  });
}

function isSameMac(one: string | null, other: string | null): boolean {
  const mac = one === null ? null : canonicalMac(one);
  return mac !== null && other !== null && mac === canonicalMac(other);
}

/** The VM's own choice, else the first with a gateway, else the first. */
function primaryOf(inOrder: readonly Matched[]): IdentityInterface | undefined {
  const own = inOrder.find(({ link }) => link?.primary === true);
  const chosen =
    own ?? inOrder.find(({ of }) => of.addresses.some(({ gateway }) => gateway !== undefined)) ?? inOrder[0];
  return chosen?.of;
}

/** Two links of one ID would be one to the guest. */
function uniqueId(wanted: string, taken: Set<string>): string {
  let id = wanted;
  for (let n = 2; taken.has(id); n++) id = `${wanted}-${n}`;
  taken.add(id);
  return id;
}

/** None for a text that is no address: a boot must go on with the others. */
function addressOf({ address, gateway }: AnsweredAddress): readonly InstanceAddress[] {
  try {
    return [
      {
        address: parseInterfaceAddress(address),
        gateway: gateway === undefined ? null : parseAddress(gateway),
      },
    ];
  } catch {
    return [];
  }
}

/** RFC 1035: of one label, and of a whole name without the dot at its end. */
const LABEL_CHARS_MAX = 63;

/** A name that somebody chose, as a host name: valid labels, joined with dots. null: nothing is left of it. */
export function validHostname(text: string): string | null {
  const labels = text
    .toLowerCase()
    .split(".")
    .map(validLabel)
    .filter((label) => label !== "");
  while (labels.join(".").length > NAME_CHARS_MAX) labels.pop();
  return labels.length === 0 ? null : labels.join(".");
}

/** Only what stands before its first dot, as with KubeVirt: the rest is nobody's domain. null: nothing is left. */
export function hostnameOfObject(name: string): string | null {
  return validLabel(name.split(".")[0]?.toLowerCase() ?? "") || null;
}

function validLabel(text: string): string {
  return text
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, LABEL_CHARS_MAX)
    .replace(/-+$/, "");
}

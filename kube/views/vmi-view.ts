import { createHash } from "node:crypto";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { keptAnnotations } from "./content-annotations.ts";
import { objectAt, readMetadata, readTexts } from "./object-metadata.ts";
import { objectsIn, textIn, vmOwnerOf } from "./tenant-objects.ts";

/** The few fields kept of a VirtualMachineInstance: all of the namespaces in use are held in memory. */
export type VmiView = Readonly<ReturnType<typeof projectVmi>>;

export type VmiInterface = Readonly<VmiView["interfaces"][number]>;

/** The fields of a VMI that never change for one UID. */
export type VmFacts = Readonly<ReturnType<typeof readVmFacts>>;

const KIND = "VirtualMachineInstance";
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Written by KubeVirt if the VM was made from one; the cluster-wide kind and the namespace's. */
const INSTANCE_TYPES = ["kubevirt.io/cluster-instancetype-name", "kubevirt.io/instancetype-name"];
/** Interfaces, networks and disks of a VM that are read: machines have room for some thirty. */
const INTERFACES_MAX = 256;
/** Interfaces of pods: `pod` and as many digits of a hash as KubeVirt leaves room for. */
const HASH_DIGITS = 11;

export function projectVmi(object: unknown) {
  const { key, name, uid, resourceVersion } = readMetadata(object, KIND);
  const spec = objectAt(object, "spec", KIND);
  const status = objectAt(object, "status", KIND);
  const domain = objectAt(spec, "domain", KIND);
  const devices = objectAt(domain, "devices", KIND);
  const annotations = readTexts(object, "annotations");
  const facts = readVmFacts(object);
  return {
    key,
    name,
    uid,
    resourceVersion,
    /** null: no VirtualMachine owns it. */
    vmUid: facts.uid || null,
    firmwareUuid: facts.firmwareUuid,
    hostname: textIn(spec, "hostname"),
    subdomain: textIn(spec, "subdomain"),
    node: textIn(status, "nodeName"),
    /** `/dev/vda`; null: not reported. */
    rootDevice: rootDevice(objectsIn(devices, "disks").slice(0, INTERFACES_MAX), objectsIn(status, "volumeStatus")),
    instanceType: INSTANCE_TYPES.map((one) => annotations.get(one)).find(Boolean) ?? null,
    /** In the order of the specification. */
    interfaces: interfacesOf(objectsIn(devices, "interfaces"), spec, status),
    labels: readTexts(object, "labels"),
    annotations: keptAnnotations(annotations),
  };
}

/** Reads what a VMI says of its VM. Throws MalformedObjectError. */
export function readVmFacts(object: unknown) {
  const { namespace, name, uid: vmiUid } = readMetadata(object, KIND);
  const owner = vmOwnerOf(object, KIND);
  const domain = objectAt(objectAt(object, "spec", KIND), "domain", KIND);
  return {
    namespace,
    /** The VMI's own where no VM owns it. */
    name: owner?.name ?? name,
    /** "": no VM owns it. */
    uid: owner?.uid ?? "",
    vmiUid,
    firmwareUuid: readUuid(objectAt(domain, "firmware", KIND).uuid),
  };
}

/**
 * Where the guest of a VMI comes from when it migrates across namespaces (KubeVirt's DecentralizedLiveMigration,
 * `status.migrationState.sourceState`); null: it does not, or from another cluster. KubeVirt writes it before it
 * creates the launcher pod of the target. See docs/decisions/0057. Throws MalformedObjectError.
 */
export function readMigrationSource(vmi: unknown) {
  const { namespace: own } = readMetadata(vmi, KIND);
  const state = objectAt(objectAt(objectAt(vmi, "status", KIND), "migrationState", KIND), "sourceState", KIND);
  const namespace = textIn(state, "domainNamespace");
  const name = textIn(state, "pod");
  const vmiUid = textIn(state, "virtualMachineInstanceUID");
  if (namespace === null || name === null || vmiUid === null || namespace === own) return null;
  return { pod: { namespace, name }, vmiUid };
}

/** A UUID as SMBIOS shows it, lower-case; null: it is none. */
export function readUuid(value: unknown): string | null {
  const text = typeof value === "string" ? value.toLowerCase() : "";
  return UUID.test(text) ? text : null;
}

type Objects = ReturnType<typeof objectsIn>;
type Fields = Readonly<Record<string, unknown>>;

/** Of a specification alone: of a VMI, or of a VM's template. Throws MalformedObjectError. */
export function vmInterfacesIn(spec: Fields) {
  const devices = objectAt(objectAt(spec, "domain", KIND), "devices", KIND);
  return interfacesOf(objectsIn(devices, "interfaces"), spec, {});
}

function interfacesOf(interfaces: Objects, spec: Fields, status: Fields) {
  const networks = objectsIn(spec, "networks").slice(0, INTERFACES_MAX);
  const reported = objectsIn(status, "interfaces").slice(0, INTERFACES_MAX);
  const secondary = networks.filter((network) => !isDefault(network)).map(({ name }) => name);
  return interfaces.slice(0, INTERFACES_MAX).flatMap((one) => {
    const name = textIn(one, "name");
    // An interface that is marked absent is being unplugged.
    if (name === null || one.state === "absent") return [];
    const network = networks.find((other) => other.name === name);
    const now = reported.find((other) => other.name === name) ?? {};
    const onDefault = network !== undefined && isDefault(network);
    const position = secondary.indexOf(name) + 1;
    const guesses = onDefault ? ["eth0"] : [hashedInterface(name), ...(position > 0 ? [`net${position}`] : [])];
    const told = textIn(now, "podInterfaceName");
    return [
      {
        name,
        /** As it runs, else as requested; null: neither is known. */
        mac: textIn(now, "mac") ?? textIn(one, "macAddress"),
        /** NetworkAttachmentDefinition as the specification names it, `blue` or `shop/blue`; null: none. */
        nad: isObject(network?.multus) ? textIn(network.multus, "networkName") : null,
        /** On the cluster's default network, or its replacement: the pod's primary interface. */
        isDefault: onDefault,
        /** Possible names of its interface in the pod, the most certain first. */
        podInterfaces: told === null ? guesses : [told, ...guesses],
      },
    ];
  });
}

/** What KubeVirt calls a secondary interface in the launcher pod; older versions count: `net1`. */
export function hashedInterface(network: string): string {
  return `pod${createHash("sha256").update(network).digest("hex").slice(0, HASH_DIGITS)}`;
}

function isDefault(network: Fields): boolean {
  return isObject(network.pod) || (isObject(network.multus) && network.multus.default === true);
}

/** Where the guest boots from: the disk with the lowest boot order, else the first. */
function rootDevice(disks: Objects, volumes: Objects): string | null {
  const orderOf = ({ bootOrder }: Fields) => (typeof bootOrder === "number" ? bootOrder : Number.POSITIVE_INFINITY);
  const [disk] = [...disks].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : Number(orderOf(a) > orderOf(b))));
  const volume = volumes.find(({ name }) => disk !== undefined && name === disk.name) ?? {};
  const target = textIn(volume, "target");
  return target !== null && /^[a-z]{2,8}$/.test(target) ? `/dev/${target}` : null;
}

import { NADS, type PlainChange, type PlainObject, type PlainStore, VMIS, VMS } from "../view.ts";
import type { Claim } from "./claims.ts";

/** Whoever decides by what a VM was a moment ago has read it so long ago at most, ms. */
const READ_MS_MAX = 30_000;

const TYPE = "holdfast-ipam";
const ANNOTATION = "network.kubevirt.io/addresses";

/** Where the VM of a claim is to be. */
export interface Wanted {
  /** null: where no claim follows it. */
  readonly network: string | null;
  /** As they are written. */
  readonly asks: readonly string[];
  /** UID of the instance that says so; null: the template of its VM does. */
  readonly vmi: string | null;
}

interface Former {
  readonly object: PlainObject | null;
  readonly untilMs: number;
}

/** Where VMs are to be, and were a moment ago: an edit and a write cross each other. */
export class Wants {
  readonly #etcd: PlainStore;
  readonly #nowMs: () => number;
  readonly #former = new Map<string, Former[]>();

  constructor(etcd: PlainStore, nowMs: () => number) {
    this.#etcd = etcd;
    this.#nowMs = nowMs;
  }

  note({ storage, key, previous }: PlainChange): void {
    if (storage !== VMIS && storage !== VMS && storage !== NADS) return;
    const untilMs = this.#nowMs();
    const kept = (this.#former.get(`${storage} ${key}`) ?? []).filter((one) => one.untilMs > untilMs - READ_MS_MAX);
    this.#former.set(`${storage} ${key}`, [...kept, { object: previous, untilMs }]);
  }

  /** null: unknown, by what is there now. */
  now(claim: Claim): Wanted | null {
    return this.#of(claim, (storage, key) => [this.#etcd.get(storage, key)])[0] ?? null;
  }

  /** Everything that somebody may believe now. */
  lately(claim: Claim): Wanted[] {
    return this.#of(claim, (storage, key) => [this.#etcd.get(storage, key), ...this.#lately(storage, key)]);
  }

  #lately(storage: string, key: string): (PlainObject | null)[] {
    const sinceMs = this.#nowMs() - READ_MS_MAX;
    return (this.#former.get(`${storage} ${key}`) ?? []).flatMap((one) => (one.untilMs > sinceMs ? [one.object] : []));
  }

  /** Definitions of a network that somebody may believe in, as configurations. */
  definitionsOf(network: string): PlainObject[] {
    const keys = this.#etcd.range(NADS, "").map(({ key }) => key);
    const former = [...this.#former.keys()].flatMap((one) =>
      one.startsWith(`${NADS} `) ? one.slice(NADS.length + 1) : [],
    );
    const objects = [...new Set([...keys, ...former])].flatMap((key) => [
      this.#etcd.get(NADS, key),
      ...this.#lately(NADS, key),
    ]);
    return objects.flatMap((nad) => {
      const config = configOf(nad);
      return config?.name === network ? [config] : [];
    });
  }

  #of(claim: Claim, versions: (storage: string, key: string) => (PlainObject | null)[]): Wanted[] {
    const { namespace } = claim.object.metadata;
    const owner = vmOwnerOf(claim);
    if (owner === null) return [{ network: claim.network, asks: [], vmi: null }];
    const key = `${namespace}/${owner.name}`;
    return versions(VMIS, key).flatMap((vmi) => {
      if (vmi !== null) {
        const owners: PlainObject[] = vmi.metadata.ownerReferences ?? [];
        const isOf = [vmi, ...owners.map((metadata) => ({ metadata }))].some(
          ({ metadata }) => metadata.uid === owner.uid,
        );
        return isOf ? this.#wantedBy(vmi, { ...owner, claim, vmi: vmi.metadata.uid }, versions) : [];
      }
      return versions(VMS, key).flatMap((vm) =>
        vm?.metadata.uid === owner.uid
          ? this.#wantedBy(vm.spec?.template ?? {}, { ...owner, claim, vmi: null }, versions)
          : [],
      );
    });
  }

  #wantedBy(
    { metadata, spec }: PlainObject,
    { name, claim, vmi }: { readonly name: string; readonly claim: Claim; readonly vmi: string | null },
    versions: (storage: string, key: string) => (PlainObject | null)[],
  ): Wanted[] {
    const mine: PlainObject[] = (spec?.networks ?? []).filter(
      (one: PlainObject) => claimOf(name, one.name) === claim.object.metadata.name,
    );
    const [one] = mine;
    const nad: string | undefined = one?.multus?.networkName;
    if (mine.length !== 1 || nad === undefined) return [];
    const asks: string[] = JSON.parse(metadata?.annotations?.[ANNOTATION] ?? "{}")[one.name] ?? [];
    return versions(NADS, nad.includes("/") ? nad : `${claim.object.metadata.namespace}/${nad}`).flatMap((object) => {
      const config = configOf(object);
      if (config === null) return [];
      const isFollowed = config.ipam?.type === TYPE && config.allowPersistentIPs === true;
      return [{ network: isFollowed ? String(config.name) : null, asks, vmi }];
    });
  }
}

/** The virtual machine that owns a claim; null: none does. */
function vmOwnerOf({ object }: Claim): { readonly name: string; readonly uid: string } | null {
  const owners: PlainObject[] = object.metadata.ownerReferences ?? [];
  return (owners.find(({ kind }) => String(kind).startsWith("VirtualMachine")) ?? null) as never;
}

/** null: it is not there, or cannot be read. */
function configOf(nad: PlainObject | null): PlainObject | null {
  try {
    const config = JSON.parse(nad?.spec?.config);
    return typeof config?.name === "string" ? { ...config.plugins?.[0], ...config } : null;
  } catch {
    return null;
  }
}

/** As KubeVirt's IPAM controller names it. */
function claimOf(vm: string, network: string): string {
  return `${vm}.${network}`
    .toLowerCase()
    .split(/[^a-z0-9-]+/)
    .join(".");
}

import { attachmentsOf, describeOwner, type Held } from "./allocations.ts";
import { isNeeded } from "./claims/at-rest.ts";
import type { Wants } from "./claims/wants.ts";
import { claimsNamedBy } from "./pods.ts";
import type { PossessionParts } from "./possession.ts";
import { NETWORKS, type PlainStore, PODS } from "./view.ts";
import { violation } from "./violation.ts";

export interface ReasonParts extends PossessionParts {
  readonly etcd: PlainStore;
  readonly wants: Wants;
  /** Names of nodes whose machine is up, and with it all that could tell that a container is gone. */
  readonly upNodes: ReadonlySet<string>;
  readonly nowMs: number;
  /** How long an address may rest before its object is deleted, ms. */
  readonly restMsMax: number;
  /** Since when controllers follow everything, ms: they count rests from then on. */
  readonly knownSinceMs: number;
}

/** What controllers must have seen rest for so long, of a network without a definition too, they have deleted, ms. */
const SEEN_MS_MAX = 90_000;

const STATIC_UID = /^[0-9a-f]{16,64}$/;

/** Everything that is held has a living reason; what rests does not rest for ever. */
export function checkReasons(parts: ReasonParts): void {
  for (const held of parts.allocations.all()) {
    const since = `since ${(held.sinceMs / 1_000).toFixed(3)} s`;
    const { address, network, owner, name } = held;
    const isDue = parts.nowMs - held.sinceMs > parts.restMsMax && parts.nowMs - parts.knownSinceMs > SEEN_MS_MAX;
    if (held.isCooling && isDue && !isToldOf(held, parts))
      throw violation("rests-for-ever", `${address} of network ${network} is Cooling ${since} (IPAllocation ${name})`);
    if (held.isRetained && isDue)
      throw violation(
        "rests-for-ever",
        `${address} of network ${network} is Retained ${since}, and no network retains now (IPAllocation ${name})`,
      );
    if (held.isBound && parts.nowMs - held.sinceMs > parts.restMsMax && !hasReason(held, parts))
      throw violation(
        "held-without-reason",
        `${address} of network ${network} is held for ${describeOwner(owner)} (UID ${owner.uid}) ${since}, and nobody needs it (IPAllocation ${name})`,
      );
  }
}

function hasReason(held: Held, parts: ReasonParts): boolean {
  const { interfaces, machines } = parts;
  if (interfaces.at(held.place).length > 0 || machines.at(held.place).length > 0) return true;
  if (isLeftBy(held, parts)) return false;
  if (attachmentsOf(held).some(({ node }) => mayRun(node, parts))) return true;
  switch (held.owner.kind) {
    case "IPAMClaim":
      return hasClaim(held, parts);
    case "Pod":
      return hasPod(held, parts);
    case "IPAddressClaim":
    case "Metal3Data":
      return hasMachine(held, parts.etcd);
    default:
      return true;
  }
}

/** Everybody that it names, or the next sandbox of the pod, runs with other addresses. */
function isLeftBy(held: Held, { interfaces }: ReasonParts): boolean {
  const attachments = attachmentsOf(held);
  if (held.owner.kind !== "Pod" || attachments.length === 0) return false;
  const { network, owner, place } = held;
  return attachments.every(({ node, containerId, ifname }) => {
    const living =
      interfaces.get({ node, containerId, ifname, network }) ??
      [...interfaces.all()].find(
        ({ one }) => one.pod.uid === owner.uid && one.ifname === ifname && one.network === network,
      );
    return living !== undefined && !living.places.includes(place);
  });
}

/** A container of it may run where nobody can look: its node exists, and its machine is not up. */
const mayRun = (node: string, { etcd, upNodes }: ReasonParts): boolean =>
  etcd.get("/nodes", node) !== null && !upNodes.has(node);

/** The claim is there, and needs it; or a living pod names it. */
function hasClaim(held: Held, parts: ReasonParts): boolean {
  const { claims, etcd, pods, wants } = parts;
  const { owner } = held;
  const claim = claims.get(`${owner.namespace}/${owner.name}`);
  if (claim?.uid === owner.uid) return isNeeded(held, claim, parts, etcd, wants);
  return etcd
    .range(PODS, `${owner.namespace}/`)
    .some(({ object }) => !pods.isOver(object.metadata.uid) && claimsNamedBy(object).includes(owner.name));
}

function hasPod(held: Held, { pods, etcd }: ReasonParts): boolean {
  const { owner, object } = held;
  if (pods.find(owner) !== null) return !pods.isOver(owner.uid);
  // Nobody but its node knows whether a static pod without its object runs.
  if (STATIC_UID.test(owner.uid)) return etcd.get(PODS, `${owner.namespace}/${owner.name}`) === null;
  // Recorded from before: no DEL tells of its end.
  return attachmentsOf(held).length === 0 && isNodeThere(etcd, object.status?.node);
}

const isNodeThere = (etcd: PlainStore, node: string | undefined): boolean =>
  node === undefined || etcd.get("/nodes", node) !== null;

/** Its object, another one of its name, or a Cluster that was moved away keeps it. */
function hasMachine({ owner, network }: Held, etcd: PlainStore): boolean {
  if (owner.uid.startsWith("pool:")) return true;
  const key = `${owner.namespace}/${owner.name}`;
  const storage =
    owner.kind === "Metal3Data"
      ? "infrastructure.cluster.x-k8s.io/metal3datas"
      : "ipam.cluster.x-k8s.io/ipaddressclaims";
  if (etcd.get(storage, key) !== null) return true;
  if (owner.cluster === "") return false;
  const cluster = etcd.get("cluster.x-k8s.io/clusters", `${owner.namespace}/${owner.cluster}`);
  if (cluster !== null) return cluster.spec?.paused === true;
  const wasPaused = etcd
    .range(NETWORKS, "")
    .filter(({ object }) => object.spec?.network === network)
    .some(({ object }) => object.status?.pausedClusters?.includes(`${owner.namespace}/${owner.cluster}`));
  return wasPaused || etcd.get("/namespaces", owner.namespace) !== null;
}

/** An IPAddress still tells of it: it is withdrawn first. */
function isToldOf({ owner, network, place }: Held, { machines }: ReasonParts): boolean {
  return (
    owner.kind !== "IPAMClaim" && owner.kind !== "Pod" && machines.at(place).some(({ one }) => one.network === network)
  );
}

import type { KubeObject } from "../../../harness/kube-fake/objects.ts";
import { Violation } from "../../engine/violation.ts";
import type { World } from "../../world.ts";
import { isSeenToGoOn } from "../people/cluster-ends.ts";
import { fleetOf } from "./fleet.ts";
import { allOf, at, isBeingDeleted, keyOf } from "./objects.ts";

const ALLOCATION = "ipam.holdfast.dev/allocation";
const IMPORTED_FROM = "ipam.holdfast.dev/imported-from";

/**
 * In peace: every claim of a pool is answered once, with what the ledger says, or says why it is not; what no claim has
 * is not held, and no IPAddress is left of it. Throws Violation.
 */
export function checkMachines(world: World): void {
  const allocations = allOf(world, "allocations");
  const bound = new Map<string, KubeObject[]>();
  for (const one of allocations) {
    const { kind, uid } = one.spec.owner;
    if (kind !== "IPAddressClaim" || one.status?.state !== "Bound") continue;
    bound.set(uid, [...(bound.get(uid) ?? []), one]);
  }
  const claims = allOf(world, "claims").filter(({ spec }) => spec.poolRef.kind === "AddressPool");
  for (const claim of claims) checkClaim(world, claim, bound.get(claim.metadata.uid) ?? []);
  checkAnswers(world, claims, allocations);
}

function checkClaim(world: World, claim: KubeObject, own: readonly KubeObject[]): void {
  const key = keyOf(claim);
  const { addressRef, conditions = [], v1beta2 } = claim.status ?? {};
  if (isBeingDeleted(claim)) return;
  if (addressRef === undefined) {
    if (own.length > 1) fail("held twice", `claim ${key} is not answered and holds ${textOf(own)}`);
    // It is left alone, and said so by an event.
    if (isAnswerOfAnother(at(world, "addresses", key), claim)) return;
    const ready = [...(v1beta2?.conditions ?? []), ...conditions].find(({ type }) => type === "Ready");
    if (ready === undefined) fail("not told", `claim ${key} is not answered, and nothing says why`);
    if (ready?.status === "True") fail("not answered", `claim ${key} is Ready and has no address`);
    if (ready?.reason === "PoolExhausted") checkIsFull(world, claim);
    return;
  }
  const answer = at(world, "addresses", `${claim.metadata.namespace}/${addressRef.name}`);
  if (answer?.metadata.annotations?.[ALLOCATION] === undefined && own.length === 0) return;
  if (own.length !== 1) fail("answered and not held", `claim ${key} is answered and holds ${textOf(own) || "nothing"}`);
  if (answer === null) fail("answer is missing", `claim ${key} is answered and its IPAddress is missing`);
  const [held] = own;
  // What another provider has made keeps its prefix length: an IPAddress cannot be changed.
  const isImported = held?.metadata.annotations?.[IMPORTED_FROM] !== undefined;
  const length = isImported ? held.spec.address.split("/")[1] : answer?.spec.prefix;
  const told = `${answer?.spec.address}/${length}`;
  if (held?.spec.address !== told) fail("told another", `claim ${key} is told ${told} and holds ${held?.spec.address}`);
  const machine = fleetOf(world).machines.get(key);
  if (machine?.isWanted && machine.used === null)
    fail("not read", `claim ${key} is answered, and its machine has read nothing`);
}

/** Whether the IPAddress of a claim's name was made for another claim or pool. */
function isAnswerOfAnother(answer: KubeObject | null, { metadata, spec }: KubeObject): boolean {
  if (answer === null) return false;
  const { claimRef, poolRef } = answer.spec;
  const names = ["apiGroup", "kind", "name"];
  return claimRef.name !== metadata.name || names.some((name) => poolRef[name] !== spec.poolRef[name]);
}

/** A claim that is told that there is nothing left may see for itself. */
function checkIsFull(world: World, claim: KubeObject): void {
  const pool = at(world, "pools", `${claim.metadata.namespace}/${claim.spec.poolRef.name}`);
  const free = Number(pool?.status?.free ?? 0);
  if (free > 0) fail("not served", `claim ${keyOf(claim)} is told PoolExhausted, and ${free} addresses are free`);
}

function checkAnswers(world: World, claims: readonly KubeObject[], allocations: readonly KubeObject[]): void {
  const living = new Set(claims.map(({ metadata }) => metadata.uid));
  const byName = new Map(allocations.map((one) => [one.metadata.name, one]));
  const seen = new Map<string, string>();
  for (const answer of allOf(world, "addresses")) {
    const name: string | undefined = answer.metadata.annotations?.[ALLOCATION];
    if (name === undefined) continue;
    const key = keyOf(answer);
    const other = seen.get(name);
    if (other !== undefined) fail("one address for two", `IPAddresses ${other} and ${key} are both ${name}`);
    seen.set(name, key);
    const held = byName.get(name);
    if (held !== undefined && (living.has(held.spec.owner.uid) || isKeptAsMoved(world, held))) continue;
    fail("left behind", `IPAddress ${key} is left, and no claim holds ${name}`);
  }
}

/**
 * The Cluster is gone as well, and a controller that runs now did not see it go on before: it may have moved away, so
 * what its machines were told is kept until people release it or clusterGoneReleaseSeconds are over
 * (docs/known-limits.md).
 */
function isKeptAsMoved(world: World, { spec, status }: KubeObject): boolean {
  const { namespace, cluster = "" } = spec.owner;
  const key = `${namespace}/${cluster}`;
  if (cluster === "" || status?.state !== "Bound" || at(world, "clusters", key) !== null) return false;
  return !isSeenToGoOn(world, key);
}

function textOf(allocations: readonly KubeObject[]): string {
  return allocations.map(({ spec }) => `${spec.address} of network ${spec.network}`).join(", ");
}

function fail(kind: string, what: string): void {
  throw new Violation(`machines: ${kind}`, what);
}

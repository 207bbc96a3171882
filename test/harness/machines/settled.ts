import { parseInterfaceAddress } from "../../../ipam/space/cidr.ts";
import { ALLOCATIONS_PATH } from "../../../kube/objects.ts";
import type { KubeObject } from "../kube-api.ts";
import type { ClusterApi } from "./cluster-api.ts";

const ALLOCATION_ANNOTATION = "ipam.holdfast.dev/allocation";

/** The same text for the same address. */
const canonical = (address: string, prefix: number) =>
  JSON.stringify(parseInterfaceAddress(`${address}/${prefix}`), (_, value) =>
    typeof value === "bigint" ? `${value}` : value,
  );

/**
 * What is wrong with the addresses of machines: each living claim of an AddressPool that is answered has exactly one
 * Bound allocation and an IPAddress that says the same, no two IPAddresses of a network are equal, and what belongs to
 * no living claim is not Bound.
 */
export async function unsettledMachines(capi: ClusterApi): Promise<string[]> {
  const [claims, addresses, allocations] = await Promise.all([
    capi.claims(),
    capi.addresses(),
    capi.cluster.api.list(ALLOCATIONS_PATH),
  ]);
  const bound = allocations.filter(
    ({ spec, status }) =>
      spec.owner.kind === "IPAddressClaim" && !spec.owner.uid.startsWith("pool:") && status?.state === "Bound",
  );
  const byOwner = grouped(bound, ({ spec }) => spec.owner.uid);
  const answers = new Map(addresses.map((one) => [keyOf(one), one]));
  const ours = claims.filter(({ spec }) => spec.poolRef.kind === "AddressPool");
  const living = new Set(ours.map(({ metadata }) => metadata.uid));
  return [
    ...ours.flatMap((claim) =>
      problemsOfClaim(claim, byOwner.get(claim.metadata.uid) ?? [], answers.get(keyOf(claim))),
    ),
    ...bound
      .filter(({ spec }) => !living.has(spec.owner.uid))
      .map(({ metadata, spec }) => `${metadata.name} is Bound to a claim ${spec.owner.name} that is gone`),
    ...problemsOfAddresses(addresses, allocations, living),
  ];
}

function problemsOfClaim(claim: KubeObject, own: readonly KubeObject[], answer: KubeObject | undefined): string[] {
  const name = keyOf(claim);
  if (claim.status?.addressRef?.name !== claim.metadata.name)
    return own.length > 1 ? [`${name} holds ${own.length} addresses and is not answered`] : [];
  if (own.length !== 1) return [`${name} is answered and holds ${own.length} addresses`];
  if (answer === undefined) return [`${name} is answered and its IPAddress is missing`];
  const { address, prefix } = answer.spec;
  const [{ spec, metadata }] = own as [KubeObject];
  const [text, length] = spec.address.split("/");
  return [
    ...(canonical(address, prefix) === canonical(text, Number(length))
      ? []
      : [`${name} is told ${address}/${prefix} and holds ${spec.address}`]),
    ...(answer.metadata.annotations?.[ALLOCATION_ANNOTATION] === metadata.name
      ? []
      : [`the IPAddress of ${name} does not name ${metadata.name}`]),
    ...(answer.metadata.ownerReferences?.some(({ uid }: KubeObject) => uid === claim.metadata.uid)
      ? []
      : [`the IPAddress of ${name} is not owned by it`]),
  ];
}

function problemsOfAddresses(
  addresses: readonly KubeObject[],
  allocations: readonly KubeObject[],
  living: ReadonlySet<string>,
): string[] {
  const byName = new Map(allocations.map((one) => [one.metadata.name as string, one]));
  const ours = addresses.filter(({ metadata }) => metadata.annotations?.[ALLOCATION_ANNOTATION] !== undefined);
  const named = grouped(ours, ({ metadata }) => metadata.annotations[ALLOCATION_ANNOTATION]);
  return [...named].flatMap(([name, group]) => {
    const allocation = byName.get(name);
    return [
      ...(group.length > 1 ? [`${group.map(keyOf).join(" and ")} have the same address, ${name}`] : []),
      ...(allocation !== undefined && living.has(allocation.spec.owner.uid)
        ? []
        : [`the IPAddress ${group.map(keyOf).join()} is left, and nobody holds ${name}`]),
    ];
  });
}

const keyOf = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`;

function grouped(objects: readonly KubeObject[], key: (object: KubeObject) => string): Map<string, KubeObject[]> {
  const groups = new Map<string, KubeObject[]>();
  for (const one of objects) groups.set(key(one), [...(groups.get(key(one)) ?? []), one]);
  return groups;
}

import { RefusalError, refuse } from "../ipam/refusals.ts";
import { type Address, formatAddress } from "../ipam/space/address.ts";
import { invalid, readAddress, readQuery } from "../platform/api-query.ts";

/** The subject of `GET /v1/identity`. `name` of a pod or VM: `namespace/name`, or a bare name in any namespace. */
export type IdentityQuestion =
  | { readonly kind: "address"; readonly address: Address; readonly network: string | undefined }
  | { readonly kind: "pod" | "vm" | "container"; readonly name: string };

export interface IdentityQuery {
  readonly question: IdentityQuestion;
  /** Only what uses addresses on this node now, without reading allocations elsewhere. */
  readonly here: boolean;
}

const SUBJECTS = ["address", "pod", "vm", "container"] as const;
const NAME_CHARS_MAX = 512;

/** Reads the parameters. Throws RefusalError REQUEST_INVALID that names the wrong one. */
export function readIdentityQuery(query: unknown): IdentityQuery {
  const read = readQuery(query, [...SUBJECTS, "network", "here"]);
  const { address, network, here } = read;
  const given = SUBJECTS.filter((name) => read[name] !== undefined);
  if (given.length !== 1) {
    invalid("query", given, "expected exactly one of address, pod, vm and container");
  }
  if (here !== undefined && here !== "true" && here !== "false") {
    invalid("here", here, "expected true or false");
  }
  const [kind] = given as [(typeof SUBJECTS)[number]];
  if (kind === "address") {
    const question = { kind, address: readAddress("address", address), network };
    return { question, here: here === "true" };
  }
  if (network !== undefined) invalid("network", network, "it goes with address only");
  const name = read[kind] as string;
  if (name.length > NAME_CHARS_MAX) invalid(kind, name, "that is longer than any name");
  return { question: { kind, name }, here: here === "true" };
}

/** Throws: the subject of the question has no address. */
export function nobody(question: IdentityQuestion, here: boolean): RefusalError {
  const where = here ? " on this node" : "";
  if (question.kind !== "address") {
    return new RefusalError(
      refuse("NOT_FOUND", { what: `${question.kind} ${question.name} with an address${where}` }),
    );
  }
  const on = question.network === undefined ? "" : ` on network ${question.network}`;
  const what = `${here ? "user" : "holder"} of ${formatAddress(question.address)}${on}${where}`;
  return new RefusalError(refuse("NOT_FOUND", { what }));
}

/** The one network of several that have an address; throws RefusalError ADDRESS_AMBIGUOUS. */
export function onlyNetwork(address: Address, networks: readonly string[]): string {
  const [only, ...others] = [...new Set(networks)].sort();
  if (only === undefined) throw new Error("no network to choose from");
  if (others.length === 0) return only;
  const values = { address, networks: [only, ...others].join(", ") };
  throw new RefusalError(refuse("ADDRESS_AMBIGUOUS", values));
}

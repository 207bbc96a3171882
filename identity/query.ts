import { RefusalError, refuse } from "../ipam/refusals.ts";
import { type Address, formatAddress, parseAddress } from "../ipam/space/address.ts";
import { invalid, readAddress, readQuery } from "../platform/api-query.ts";

/** The subject of `GET /v1/identity`. `name` of a pod or VM: `namespace/name`, or a bare name in any namespace. */
export type IdentityQuestion =
  | { readonly kind: "address"; readonly address: Address; readonly network: string | undefined }
  | { readonly kind: "pod" | "vm" | "container"; readonly name: string };

/** A guest as the listener of its node knows it: by the port that it is behind. Only that node can answer. */
export type GuestQuestion =
  | {
      readonly kind: "attachment";
      readonly containerId: string;
      readonly interface: string;
      readonly network: string;
    }
  /** A pod on a network whose addresses another component allocates. */
  | { readonly kind: "pod-uid"; readonly uid: string; readonly network: string };

/** `here`: only what uses addresses on this node now, without reading allocations elsewhere. */
export type IdentityQuery =
  | { readonly question: IdentityQuestion; readonly here: boolean }
  | { readonly question: GuestQuestion; readonly here: true };

const SUBJECTS = ["address", "pod", "vm", "container", "pod-uid"] as const;
const NAME_CHARS_MAX = 512;

/** Reads the parameters. Throws RefusalError REQUEST_INVALID that names the wrong one. */
export function readIdentityQuery(query: unknown): IdentityQuery {
  const read = readQuery(query, [...SUBJECTS, "interface", "network", "here"]);
  const { address, network, here } = read;
  const given = SUBJECTS.filter((name) => read[name] !== undefined);
  if (given.length !== 1) {
    invalid("query", given, "expected exactly one of address, pod, vm, container and pod-uid");
  }
  if (here !== undefined && here !== "true" && here !== "false") {
    invalid("here", here, "expected true or false");
  }
  const [kind] = given as [(typeof SUBJECTS)[number]];
  if (kind === "pod-uid" || (kind === "container" && read.interface !== undefined))
    return { question: readGuest(kind, read), here: true };
  if (read.interface !== undefined) invalid("interface", read.interface, "it goes with container only");
  if (kind === "address") {
    const question = { kind, address: readAddress("address", address, parseAddress), network };
    return { question, here: here === "true" };
  }
  if (network !== undefined) invalid("network", network, "it goes with address only");
  const name = read[kind] as string;
  if (name.length > NAME_CHARS_MAX) invalid(kind, name, "that is longer than any name");
  return { question: { kind, name }, here: here === "true" };
}

function readGuest(kind: "container" | "pod-uid", read: Readonly<Record<string, string | undefined>>): GuestQuestion {
  const { network, here, interface: name } = read;
  if (here !== "true") invalid("here", here, "expected true: only the node of a guest knows its ports");
  if (network === undefined || network === "") invalid("network", network, "expected the network of the port");
  const id = read[kind] as string;
  if (id === "" || id.length > NAME_CHARS_MAX) invalid(kind, id, "expected an ID");
  if (kind === "container") {
    if (name === undefined || name === "") invalid("interface", name, "expected the name of an interface");
    return { kind: "attachment", containerId: id, interface: name, network };
  }
  if (name !== undefined) invalid("interface", name, "it goes with container only");
  return { kind, uid: id, network };
}

/** Throws: the subject of the question has no address. */
export function nobody(question: IdentityQuestion | GuestQuestion, here: boolean): RefusalError {
  const where = here ? " on this node" : "";
  if (question.kind === "attachment") {
    const { containerId, interface: name, network } = question;
    return new RefusalError(
      refuse("NOT_FOUND", {
        what: `interface ${name} of container ${containerId} on network ${network}${where}`,
      }),
    );
  }
  if (question.kind === "pod-uid") {
    const what = `running pod with UID ${question.uid} on network ${question.network}${where}`;
    return new RefusalError(refuse("NOT_FOUND", { what }));
  }
  if (question.kind !== "address") {
    return new RefusalError(refuse("NOT_FOUND", { what: `${question.kind} ${question.name} with an address${where}` }));
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

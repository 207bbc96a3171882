import { Violation } from "../engine/violation.ts";

/** What the oracle can find. Each name is short and stays, so that runs can be compared. */
export type OracleKind =
  /** Two living interfaces have one address of one network, and are not two ends of one claim's migration. */
  | "given-twice"
  /** An address was answered that was not recorded for its owner. */
  | "answered-unheld"
  /** An address of a living interface was released, deleted, or passed to another owner. */
  | "freed-in-use"
  /** The product lists an address of a claim that was never reserved for it. */
  | "published-unheld"
  /** A container was answered what its claim has never listed; or its claim does not list it at rest. */
  | "answered-unpublished"
  /** A claim's user was answered another address than the claim's former user, or that was taken from the claim. */
  | "changed-claim"
  /** A node has taken an entry away from a claim's list, or moved the claim. */
  | "rewritten-list"
  /** What is reserved for a claim's list is no address that an ADD could give, or beside another of its subnet. */
  | "reserved-amiss"
  /** A VM asks for an address, and was answered another one though nothing else used its claim. */
  | "not-as-asked"
  /** At rest, a claim is on another network than where its VM is to be and it has addresses. */
  | "claim-astray"
  /** At rest, a claim lists other addresses than it has. */
  | "claim-says-otherwise"
  /** An exact repeat of an ADD was answered otherwise. */
  | "changed-answer"
  /** A claim of one virtual machine served a pod of another. */
  | "stranger-answered"
  /** A guest was told that it is somebody else. */
  | "wrong-identity"
  /** An address was taken away, and nobody was told. */
  | "untold-loss"
  /** An address was given to another owner before it had cooled down, though there were others. */
  | "given-too-soon"
  /** An address that is retained for a claim's name was given to somebody else. */
  | "retained-given"
  /** An address that is retained was given back before its time. */
  | "retained-lost"
  /** A claim that was made again in time has another address than what was retained for it. */
  | "retained-not-returned"
  /** An address that was given back was taken again for a pod that has long ended. */
  | "revived"
  /** One pod holds more addresses of a network than its interfaces can have. */
  | "held-beyond-need"
  /** A claim names a pod that does not use it, while another one does. */
  | "owner-pod"
  /** An address is held for nobody. */
  | "held-without-reason"
  /** An address rests for ever. */
  | "rests-for-ever"
  /** The counts of a network are not true. */
  | "counts"
  /** An ADD that could be answered is not. */
  | "unanswered"
  /** A daemon, or all controllers, do not come back. */
  | "not-ready"
  /** `check` of a node finds something. */
  | "check-finds"
  /** A node lists or follows what is not its own, of a kind that a cluster has many of. */
  | "reads-the-cluster"
  /** A node reads or asks more than what it uses can need. */
  | "reads-too-much"
  | "asks-too-often"
  /** A node lists something again although nothing has happened. */
  | "lists-at-rest"
  /** A node that was refused with Retry-After has not waited so long. */
  | "retries-early"
  /** Nodes that were refused together come back together. */
  | "retries-together";

export function violation(kind: OracleKind, what: string): Violation {
  return new Violation(kind, what);
}

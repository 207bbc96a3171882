/*
 * identity/: which VM has this address
 *
 *   query, wire        the question and the answer
 *   service            asks the one source of this node; daemon/build-identity.ts says which
 *   holding, compose   held addresses, and the identity composed of them
 *   allocation-source  what a source of allocations provides, and which of its answers is meant
 *   sources/           one file for each source of answers
 *   server             its socket, and what is answered there
 *   generation, identity-cache   when an answer is no longer valid
 *   content            what the claims of a guest name for it, on a node without Kubernetes
 *   source, client, lean-get   the client side
 */

import type { AddressUser, Attachment } from "../allocations/records.ts";
import { describeOwner, sameOwner } from "../ipam/owner.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import { invalid } from "../platform/api-query.ts";
import type { IdentityStore } from "../store/node-store.ts";
import {
  type AllocationSource,
  answerOf,
  type LocalVms,
  matchingHolding,
  networkOf,
  type PodInterfaces,
  type RunningPod,
} from "./allocation-source.ts";
import { composeIdentity, type NetworkFacts, NotLearnt } from "./compose.ts";
import { containersOf, type Holding, holdingsOf, userKey } from "./holding.ts";
import { type GuestQuestion, type IdentityQuery, type IdentityQuestion, nobody, onlyNetwork } from "./query.ts";
import type { IdentityAnswer, IdentityInterface, IdentityView, IdentityVm } from "./wire.ts";

export interface IdentityParts {
  readonly store: IdentityStore;
  readonly source: AllocationSource;
  readonly vms: LocalVms;
  readonly facts: NetworkFacts;
  /** What other components gave the pods of this node. */
  readonly others?: readonly PodInterfaces[];
  /** Why the journal may still have attachments that have ended; null: it does not. */
  notReady(): string | null;
}

/** What a question means on this node: at least one holding, or a pod. */
interface Here {
  readonly holdings: readonly Holding[];
  /** Of a question about a pod whose addresses another component allocated. */
  readonly pod: RunningPod | null;
}

/** Nothing about who has an address is kept from one question to the next. */
export class IdentityService {
  readonly #parts: IdentityParts;

  constructor(parts: IdentityParts) {
    this.#parts = parts;
  }

  /** Throws RefusalError, StorageFault and, in Kubernetes, ApiAway. */
  async answer(query: IdentityQuery): Promise<IdentityAnswer> {
    for (;;) {
      try {
        return await this.#answer(query);
      } catch (error) {
        if (!(error instanceof NotLearnt)) throw error;
        await error.learn();
      }
    }
  }

  async #answer(query: IdentityQuery): Promise<IdentityAnswer> {
    const { source, facts } = this.#parts;
    const reason = this.#parts.notReady();
    if (reason !== null) throw new RefusalError(refuse("NOT_READY", { reason }));
    if (query.here) return this.#here(query.question);
    const { question } = query;
    const holdings = await source.find(question);
    const holding = matchingHolding(question, holdings);
    if (question.kind === "address" && holding?.state === "Bound") {
      refuseOthers(holding, this.#parts.store.usersOf(question.address, holding.network));
    }
    return answerOf(question, holdings, await source.vm(holdings), facts);
  }

  /** Reads what must be read from elsewhere first; then everything is read and answered without waiting. */
  async #here(question: IdentityQuestion | GuestQuestion): Promise<IdentityAnswer> {
    const { vms } = this.#parts;
    for (;;) {
      const found = this.#found(question);
      const { holdings, pod } = found;
      const vm = pod === null ? vms.known(holdings) : vms.knownOf(pod);
      if (vm !== undefined) {
        const meant = vm === null ? { holdings: ofLatestUser(holdings), pod } : found;
        return { network: networkOf(question, holdings), identity: this.#identityOf(meant, vm) };
      }
      await (pod === null ? vms.learn(holdings) : vms.learnOf(pod));
    }
  }

  #identityOf({ holdings, pod }: Here, vm: IdentityVm | null): IdentityView {
    const { facts, others = [] } = this.#parts;
    const view = holdings.length === 0 && pod !== null ? viewOfPod(pod, vm) : composeIdentity(holdings, vm, facts);
    const interfaces = new Map<string, IdentityInterface>();
    for (const { namespace, name, uid } of view.pods) {
      if (namespace === null || name === null || uid === null || uid === "") continue;
      for (const one of others.flatMap((other) => other.of({ namespace, name, uid })))
        interfaces.set(`${one.network} ${one.interface}`, one);
    }
    return interfaces.size === 0 ? view : { ...view, interfaces: [...view.interfaces, ...interfaces.values()] };
  }

  #found(question: IdentityQuestion | GuestQuestion): Here {
    if (question.kind !== "pod-uid") return { holdings: this.#used(question), pod: null };
    const { store, others = [] } = this.#parts;
    const { uid, network } = question;
    const pod = others.map((other) => other.podOn(uid, network)).find((one) => one !== null);
    if (pod === undefined) throw nobody(question, true);
    return { holdings: store.attachmentsOfPod(uid).flatMap(holdingsOf), pod };
  }

  /** The holdings of the containers that are meant, those named by the question first. */
  #used(question: LocalQuestion): Holding[] {
    const { store } = this.#parts;
    const users = this.#users(question);
    const [first] = users;
    if (first === undefined) throw nobody(question, true);
    if (question.kind === "address") {
      onlyNetwork(
        question.address,
        users.map(({ network }) => network),
      );
      refuseOthers(first, users);
    }
    const containers = new Set(users.map(({ containerId }) => containerId));
    return [...containers]
      .flatMap((id) => store.attachmentsOfContainer(id))
      .filter((one) => users.some((user) => isOneContainer(user, one)))
      .flatMap(holdingsOf);
  }

  #users(question: LocalQuestion): readonly AddressUser[] {
    const { store, vms } = this.#parts;
    switch (question.kind) {
      case "address":
        return store.usersOf(question.address, question.network);
      case "container":
        return store.attachmentsOfContainer(question.name);
      case "attachment":
        return store
          .attachmentsOfContainer(question.containerId)
          .filter((one) => one.interface === question.interface && one.network === question.network);
      case "pod":
        return ofOne(question.kind, question.name, this.#all(), ({ pod }) => pod && `${pod.namespace}/${pod.name}`);
      case "vm":
        return ofOne(question.kind, question.name, this.#all(), (one) => vms.nameOf(one));
    }
  }

  *#all(): Generator<Attachment> {
    for (let last: number | undefined = 0; last !== undefined; ) {
      const page: Attachment[] = this.#parts.store.attachmentsAfter(last, ATTACHMENTS_AT_ONCE);
      yield* page;
      last = page.at(-1)?.id;
    }
  }
}

/** Kept in memory while one is searched by its pod or VM. */
const ATTACHMENTS_AT_ONCE = 1_000;

/** A runtime may give an ID again while a container without its DEL is still recorded: pods tell them apart. */
function isOneContainer(a: Container, b: Container): boolean {
  if (a.containerId !== b.containerId) return false;
  if (a.pod === null || b.pod === null) return true;
  if (a.pod.uid !== "" && b.pod.uid !== "") return a.pod.uid === b.pod.uid;
  return a.pod.namespace === b.pod.namespace && a.pod.name === b.pod.name;
}

type Container = Pick<Attachment, "containerId" | "pod">;

/** Of one pod. Only a VM has two at once; any other claim's earlier pod may have ended, and still be recorded. */
function ofLatestUser(holdings: readonly Holding[]): readonly Holding[] {
  const users = containersOf(holdings).map(userKey);
  const latest = users.at(-1);
  if (users.every((user) => user === latest)) return holdings;
  return holdings.filter(({ uses }) => uses.some((use) => userKey(use) === latest));
}

/** A question that the journal answers. */
type LocalQuestion = IdentityQuestion | Extract<GuestQuestion, { kind: "attachment" }>;

/** Of a pod without addresses of ours. */
function viewOfPod({ namespace, name, uid, node, since }: RunningPod, vm: IdentityVm | null): IdentityView {
  const pods = [{ namespace, name, uid, node, containerID: "", since }];
  return { state: "running", vm, pods, interfaces: [] };
}

/** Those whose pod or VM has the name; a bare one matches in any namespace. Throws RefusalError if it is ambiguous. */
function ofOne(
  kind: "pod" | "vm",
  name: string,
  all: Iterable<Attachment>,
  nameOf: (attachment: Attachment) => string | null,
): Attachment[] {
  const found: { attachment: Attachment; key: string }[] = [];
  for (const attachment of all) {
    const full = nameOf(attachment);
    if (full === null || (full !== name && full.slice(full.indexOf("/") + 1) !== name)) continue;
    found.push({ attachment, key: kind === "pod" ? `${full} (${userKeyOf(attachment)})` : full });
  }
  const keys = [...new Set(found.map(({ key }) => key))];
  if (keys.length > 1)
    invalid(kind, name, `that means several: ${keys.join(", ")}; ask by namespace/name, or by an address`);
  return found.map(({ attachment }) => attachment);
}

function userKeyOf({ pod, containerId }: Attachment): string {
  return userKey({ pod, containerID: containerId });
}

/** Two owners of one address are a fault, and answering with either of them would be a guess. */
function refuseOthers({ network, owner }: Pick<AddressUser, "network" | "owner">, users: readonly AddressUser[]): void {
  const other = users.find((one) => !sameOwner(one.owner, owner));
  if (other === undefined) return;
  const problem = `an address of network ${network} is used by ${describeOwner(other.owner)} and by ${describeOwner(owner)}`;
  throw new RefusalError(refuse("INTERNAL_ERROR", { problem }));
}

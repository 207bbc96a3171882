/*
 * test/simulation/: a cluster in one process, one seed, virtual time
 *
 *   world     what the parts of it are to each other
 *   engine/   chance, time, what goes wrong, the loop, shrinking
 *   cluster/  the API server, its clients and controllers; what becomes of messages
 *   machine/  nodes: kubelet, runtime, plugin binary, daemon, disk, clock, power
 *   large/    a cluster with many nodes, and what each of them asks for
 *   actors/   who acts: KubeVirt, people, Cluster API, tenants, guests
 *   oracle/   what must be true; it shares no code with the product
 *   story/    the history in an operator's words; what was exercised
 *   mutants/  faults put into the product, each of which must be found
 *   found/    seeds that failed once
 */

import type { Connect } from "../../kube/kube-api.ts";
import type { Clock } from "../../platform/time.ts";
import type { Etcd } from "../harness/kube-fake/etcd.ts";
import type { KubeObject } from "../harness/kube-fake/objects.ts";
import type { VirtualTime } from "../harness/virtual-time.ts";
import type { Chance } from "./engine/chance.ts";

/** One world of the simulation, as all its parts see it. */
interface SimulatedWorld {
  readonly seed: number;
  readonly time: VirtualTime;
  /** The world's own clock. Machines and controllers have others. */
  readonly clock: Clock;
  readonly faults: Faults;
  readonly story: Story;
  readonly counts: Counts;
  readonly cluster: Cluster;
  readonly machines: readonly Machine[];
  readonly controllers: readonly ControllerPlace[];
  readonly oracle: Oracle;
  /**
   * In times of peace, beside the cluster, machines and controllers: `heal` puts right what its part has broken,
   * `check` throws Violation when something is wrong after the longest grace.
   */
  onPeace(work: PeaceWork): void;
  /** The world ends: files are removed, databases closed. */
  atEnd(clear: () => void): void;
}

export type { SimulatedWorld as World };

export interface PeaceWork {
  readonly heal?: () => void | Promise<void>;
  /** After the longest grace, before the oracle looks. */
  readonly ask?: () => void | Promise<void>;
  readonly check?: () => void | Promise<void>;
}

/** What goes wrong by chance, in one place, so that a history can be made shorter by leaving some of it out. */
export interface Faults {
  /** false in times of peace: nothing goes wrong, and `decide` is always false. */
  isOn: boolean;
  /**
   * Whether something of this probability goes wrong now. `key` is unique and says where (`link node-1/4 send 17
   * lost`): the seed and the key decide, so that leaving out one does not change the others.
   */
  decide(key: string, probability: number): boolean;
  /** [0, 1) of the seed and the key: how late, how many. */
  number(key: string): number;
}

/**
 * One thing that somebody does. What is chosen (which VM, which node) is chosen when it is done, out of what there is.
 */
export interface Action {
  readonly kind: string;
  /** After the action before it, ms of the world. */
  readonly afterMs: number;
  /** Of its choices. */
  readonly seed: number;
}

/**
 * A kind of action. `run` begins it and returns; what takes time goes on beside the others, on the world's clock. When
 * there is nothing to do it to, it does nothing.
 */
export interface ActionKind {
  /** How often it comes, beside the others (1: usual). 0: never by chance. */
  readonly weight: number;
  /** It comes in the turns of a long history all the same. */
  readonly isInTurn?: true;
  run(world: SimulatedWorld, chance: Chance): void | Promise<void>;
}

/**
 * By kind, `who-does-what`: `vm-start`, `node-reboot`, `etcd-restore`. Everything in actors/, machine/ and cluster/
 * that acts exports one.
 */
export type ActionKinds = Readonly<Record<string, ActionKind>>;

/** The history, in an operator's words. */
export interface Story {
  /**
   * `who`: `kubelet node-1`, `daemon node-1`, `api server`, `alice`. Times are added. Without names of directories of
   * this machine.
   */
  tell(who: string, what: string): void;
  /** Only for whoever reads a history that has failed: each request and answer. Costs nothing when nobody does. */
  detail(who: string, what: () => string): void;
}

/**
 * What was exercised. Names have a prefix: `add.`, `crash.`, `api.`, `vm.`, `people.`, `machines.`, `metadata.`,
 * `attack.`.
 */
export interface Counts {
  add(name: string): void;
}

/**
 * The API server with the shipped definitions, rights, garbage collector and namespace controller; kubelets and
 * KubeVirt are elsewhere.
 */
export interface Cluster {
  /** What the API server says that no product of ours may bring it to: `403 by missing rights`. Each is a violation. */
  readonly defects: readonly string[];
  /** Read it directly: what really is, without any delay. Objects of it are not changed. */
  readonly etcd: Etcd;
  /**
   * A client without a network in between, with every right, for actors and kubelets. Answers at once, also while the
   * API server is "away" for everybody else (it is as if whoever acts waited for it).
   */
  readonly admin: AdminClient;
  /**
   * The way of a product's process to the API server, over a link of that name whose fate `faults` decides. `operator`:
   * somebody with every right, and the command line.
   */
  connect(
    account: "holdfast-node" | "holdfast-controller" | "holdfast-metadata" | "operator",
    link: string,
    node?: string,
  ): Connect;
  /** Everything of this link that is under way is lost, and nothing comes any more: its process was killed. */
  cut(link: string): void;
  /** Nobody restricts anything any more: the server is there, caches are current, no partition. */
  heal(): void;
}

/** Answers with the object; throws AdminRefused with the status code. Paths as the API has them. */
export interface AdminClient {
  /** null: there is none. */
  get(path: string): Promise<KubeObject | null>;
  list(collection: string): Promise<KubeObject[]>;
  create(collection: string, object: KubeObject): Promise<KubeObject>;
  /** JSON merge patch. */
  patch(path: string, patch: object): Promise<KubeObject>;
  /** `graceSeconds` 0: at once. Absent object: nothing. */
  remove(path: string, options?: { readonly graceSeconds?: number; readonly propagation?: string }): Promise<void>;
}

/** A node: its power, its clock, its disk, its kubelet and containers, and the daemon on it. */
export interface Machine {
  /** The node's name in the cluster. */
  readonly name: string;
  readonly isUp: boolean;
  /** Whether it sleeps, or its daemon is stopped: nothing is noticed there. */
  readonly isSuspended: boolean;
  /** As a metadata server or a person on this node asks; null: there is none that runs now. */
  readonly daemon: RunningDaemon | null;
  /**
   * What is up now, as the runtime knows it, with its addresses as they were answered. Who is in here stays the same
   * object until it is down.
   */
  readonly interfaces: ReadonlyMap<Interface, readonly string[]>;
  /**
   * Path of the identity socket, the same for every daemon of this node: nobody listens there, but beside it is the
   * generation of its answers, by which they are used again.
   */
  readonly identitySocket: string;
  /** A directory in which a daemon may leave backups; it is not the state directory. */
  readonly backupDirectory: string;
  /**
   * Its directory of static pods: manifests by the name of the pod, each with the kubelet's own UID for it, 32 hex
   * digits. The kubelet runs them, and keeps a mirror of each in the API.
   */
  readonly staticPods: Map<string, KubeObject>;
  /** Power is lost: everything ends at once, the disk keeps what was synced. */
  losePower(): void;
  /** After lost power, or instead of it: a new boot. */
  boot(): void;
  killDaemon(): void;
  /** SIGTERM, and a new one. */
  restartDaemon(): void;
  /** Everything is made to work again: power, daemon, disk, clock. */
  heal(): void;
}

/**
 * What of a daemon is asked by others than the kubelet. Each is a call into the product; a killed daemon never answers.
 */
export interface RunningDaemon {
  readonly core: import("../../daemon/node-core.ts").NodeCore;
  readonly log: readonly string[];
}

/** Of what controllers follow. */
export type FollowedKind = "pods" | "clusters";

/** Where one controller runs. */
export interface ControllerPlace {
  readonly name: string;
  readonly isRunning: boolean;
  /**
   * Its process began then, or asked for all of a kind at once, ms of the world: of what ended before it may know
   * nothing. Infinity: none runs.
   */
  knowsSinceMs(kind: FollowedKind): number;
  /** Nobody starts it again before there is peace. */
  isAbsent: boolean;
  kill(): void;
  start(): void;
}

/** An interface of a container, as the runtime knows it. */
export interface Interface {
  readonly node: string;
  readonly containerId: string;
  readonly ifname: string;
  /** Of the configuration. */
  readonly network: string;
  /** As the API has it. */
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** Its node knows nothing of its network namespace: the journal that had it was lost. */
  isUnseen?: boolean;
}

/**
 * The address of a machine of Cluster API. It lasts from its answer to the end of the machine, also while its claim is
 * elsewhere in a move.
 */
export interface MachineAddress {
  readonly network: string;
  readonly namespace: string;
  /** Name of its IPAddressClaim. */
  readonly claim: string;
}

/** One write of an IPAMClaim by the product: as it was, and as it will be. */
export interface ClaimWrite {
  readonly by: "node" | "controller";
  readonly before: KubeObject;
  readonly after: KubeObject;
}

interface Finding {
  readonly invariant: string;
  readonly message: string;
}

/** What the world tells the oracle. Addresses are texts as they were answered, with prefix length. */
export interface Oracle {
  /** The runtime has had this answer to an ADD, and the interface is up with it. */
  up(one: Interface, ips: readonly string[]): void;
  /** The interface is gone (when its DEL begins, its namespace vanishes, its node loses power). */
  down(one: Interface): void;
  /** The runtime has sent its DEL, and the plugin has answered. */
  deleted(one: Interface): void;
  /**
   * The journal of a node is lost, or was replaced by an older one: with it, what DELs said and the API was not told
   * yet.
   */
  journalLost(node: string): void;
  /** A machine has read the answer to its claim, and uses the address. */
  machineUp(one: MachineAddress, address: string): void;
  /** The machine is turned off; only after that its claim is let go. */
  machineDown(one: MachineAddress): void;
  /** ADD of a container was refused, CNI code and message. */
  refused(one: Interface, code: number, message: string): void;
  /** A process of the product has said, by log, event or metric, that this address is lost to who used it. */
  lossTold(network: string, address: string): void;
  /** Somebody with the right to do so took an address away: `release --force`, a NAD's edit, a restored etcd. */
  excused(network: string, address: string | null, why: string): void;
  /** A process of the product writes a claim. */
  claimWritten(write: ClaimWrite): void;
  /** Somebody with the token of a node has reserved an address for a claim, by its UID. */
  slipped(claim: string, network: string, address: string): void;
  /** What `check` of a node has found, while nothing went wrong. */
  checked(node: string, findings: readonly Finding[]): void;
  /**
   * A guest asked the metadata service at this interface, which was up all the time, and was answered as this VM (UID
   * of the VirtualMachine, else of its instance) or pod; null: nobody, or no answer.
   */
  identified(one: Interface, uid: string | null): void;
  /** Whether an address of this interface, which is up, was taken away, and that was told. */
  hasForfeited(one: Interface): boolean;
  /** After every step. Throws Violation. */
  afterStep(): void;
  /** When the nodes have been left in peace for long, and no controller has run since. Throws Violation. */
  withoutControllers(): void;
  /** When the world has been left in peace for the longest of all graces. Throws Violation. */
  atRest(): Promise<void>;
}

/** What one client has asked in one phase of a history, and what that cost. */
export interface Charge {
  /** `node-7`, `controller-a`: of all its processes. */
  readonly client: string;
  readonly phase: string;
  readonly what: Asking;
  readonly requests: number;
  /** Of these, how many were refused. */
  readonly refused: number;
  /** Of the answers, and of events. */
  readonly bytes: number;
}

export interface Asking {
  /** `GET` and other methods of one object; `list`, `watch`. */
  readonly verb: string;
  /** In the plural. */
  readonly resource: string;
  /** By label or field, as it was written, or `namespace NAME`; "": everything of the resource. */
  readonly selector: string;
  /** A list that names a version: the server answers from its cache. */
  readonly isCached: boolean;
}

/** A request that was refused with Retry-After, sent again. */
export interface Retry {
  readonly client: string;
  readonly phase: string;
  readonly what: Asking;
  /** Since the client read the refusal. */
  readonly waitedMs: number;
  readonly retryAfterMs: number;
}

import { usersOfMacs } from "../allocations/mac-users.ts";
import { type Caches, cachedFacts, type MachineSources } from "../claims/reasons/caches.ts";
import type { SweptPod } from "../claims/reasons/fact-views.ts";
import { isPod } from "../claims/reasons/facts.ts";
import type { Verdict } from "../claims/reasons/verdict.ts";
import { DUPLICATE_MAC_HINT, describeDuplicates, duplicateMacs } from "../ipam/duplicate-macs.ts";
import { type EventWriter, vmiObject } from "../kube/events.ts";
import { networkObjectOf } from "../kube/network-object.ts";
import { POD_ADDRESSES_MAX } from "../kube/views/held-addresses.ts";
import type { Clock } from "../platform/time.ts";
import { recoveryMark } from "../store/cluster/contact/recovery.ts";
import { Adoption } from "./claims/adoption.ts";
import { ClaimStanding } from "./claims/claim-standing.ts";
import { ClaimProjections } from "./claims/projections.ts";
import { LauncherAdoption } from "./launchers/launcher-adoption.ts";
import { LeanAllocations } from "./lean-allocations.ts";
import { OwnerPods } from "./owner-pods.ts";
import type { ControllerPart, PartContext } from "./part.ts";
import { PodAdoption } from "./pod-adoption.ts";
import { LostAllocations } from "./protection/lost-allocations.ts";
import { quietPart } from "./quiet-part.ts";
import { CARRY_OUT_REST, Sweeper, TURN_REST } from "./sweep/sweeper.ts";
import { WhereaboutsRecords } from "./whereabouts-records.ts";

/** How often empty claims are compared with their VMs' launchers, ms: they are filled within 10 s. */
const LAUNCHERS_INTERVAL_MS = 5_000;
/** How long after a failure allocations that were deleted by force are put back, ms: otherwise it is done at once. */
const LOST_INTERVAL_MS = 1_000;
/** How often allocations that stay are made smaller, ms. */
const LEAN_INTERVAL_MS = 60_000;

interface AddressPartsOptions extends PartContext {
  readonly machines: MachineSources;
  /** Why what is known cannot be trusted, or null. */
  doubt(): string | null;
  onCarriedOut(verdict: Verdict): void;
  onRefused(count: number): void;
  onPutBack(): void;
}

/** Why each address is kept, who has those that are not recorded yet, and what is shown of it. */
export class AddressParts {
  readonly sweeper: Sweeper;
  readonly adoption: Adoption;
  readonly lost: LostAllocations;
  readonly parts: readonly ControllerPart[];
  readonly #context: PartContext;
  readonly #podAdoption: PodAdoption;
  #definitionChanges = 0;

  constructor(options: AddressPartsOptions) {
    const { api, log, idle, events, settings, watched, machines, occur, onRefused, onPutBack } = options;
    const shared = { api, log, idle };
    const { claims, pods, allocations, networks, catalog: definitions } = watched;
    const { sweepGraceSeconds: graceSeconds, sweepIntervalSeconds: intervalSeconds } = settings;
    const everyMs = intervalSeconds * 1_000;
    const { namesOf, had, wanted } = watched;
    const caches = { ...watched, namesOf, machines };
    const rules = {
      graceSeconds,
      podGoneReleaseSeconds: settings.podGoneReleaseSeconds,
      clusterGoneReleaseSeconds: settings.clusterGoneReleaseSeconds,
      coolingKeepSeconds: settings.coolingKeepSeconds,
      wallMs: () => api.clock.wallMs(),
      definitionOf: (network: string) => definitions.definitionOf(network)?.definition ?? null,
    };
    const sweeper = new Sweeper({
      ...{ ...shared, intervalSeconds, caches, rules },
      doubt: () => options.doubt(),
      onChange: () => occur("reason-changed"),
      onDue: () => occur("verdict-due"),
      onDone: (_object, verdict) => options.onCarriedOut(verdict),
    });
    const memory = () => sweeper.memory;
    const facts = () => cachedFacts(caches);
    const adoption = new Adoption({ ...shared, claims, allocations, definitions, events, had, memory });
    const objectOf = (network: string) => networkObjectOf(network, (name) => networks.items.get(name)?.object);
    const standing = new ClaimStanding({
      ...{ ...shared, claims, pods, allocations, definitions, events, had, wanted },
      isRecovering: (network) => recoveryMark(objectOf(network)) !== null,
    });
    const projections = new ClaimProjections({
      ...{ ...shared, caches, rules, had, wanted, facts, memory, events },
      mutex: sweeper.claimMutex,
      onWanted: (claim) => sweeper.factChanged("claim", claim),
    });
    const podAdoption = new PodAdoption({
      ...shared,
      ...{ pods, allocations, networks, definitions, events, onRefused },
    });
    const launchers = new LauncherAdoption({ ...shared, claims, pods, allocations, definitions });
    const macs = new DuplicateMacs({ clock: api.clock, caches: watched, events, idle });
    const whereabouts = new WhereaboutsRecords({ ...shared, allocations, graceSeconds });
    const lean = new LeanAllocations({ api, allocations, serverMs: options.serverMs, idle });
    const ownerPods = new OwnerPods({ ...shared, caches: watched, definitions, had, facts, memory });
    const lost = new LostAllocations({
      ...{ ...shared, events, onPutBack },
      onLost: () => occur("allocation-lost"),
    });
    this.lost = lost;
    this.sweeper = sweeper;
    this.adoption = adoption;
    this.#podAdoption = podAdoption;
    const revision = () => watched.revision + this.#definitionChanges;
    const quiet = (part: ControllerPart, waits?: () => boolean) =>
      quietPart(part, { clock: api.clock, revision, idle, ...(waits && { waits }) });
    this.parts = [
      {
        ...{ name: "the sweep", everyMs, triggers: ["reason-changed"], rest: TURN_REST },
        nextMs: () => sweeper.nextMs,
        work: (signal) => sweeper.runTurn(signal),
      },
      {
        ...{ name: "carrying out", everyMs, triggers: ["verdict-due"], rest: CARRY_OUT_REST },
        work: (signal) => sweeper.carryOutDue(signal),
      },
      {
        ...{ name: "lost allocations", everyMs: LOST_INTERVAL_MS, triggers: ["allocation-lost"] },
        rest: { restMsMin: 0, restShare: 0 },
        work: (signal) => lost.runPass(signal),
      },
      quiet({
        ...{ name: "adoption", everyMs, triggers: ["claim-listed"] },
        work: (signal) => adoption.runPass(signal),
      }),
      quiet(
        {
          ...{ name: "adoption from launchers", everyMs: Math.min(everyMs, LAUNCHERS_INTERVAL_MS) },
          work: (signal) => launchers.runPass(signal),
        },
        () => launchers.waits,
      ),
      quiet(
        {
          ...{ name: "the lists of claims", everyMs: Math.min(everyMs, LAUNCHERS_INTERVAL_MS) },
          work: (signal) => projections.runPass(signal),
        },
        () => projections.waits,
      ),
      quiet({
        ...{ name: "the standing of claims", everyMs, triggers: ["owner-ended", "definitions-changed"] },
        work: (signal) => standing.runPass(signal),
      }),
      quiet({ name: "adoption of pods", everyMs, work: (signal) => podAdoption.runPass(signal) }),
      { name: "whereabouts' records", everyMs, work: (signal) => whereabouts.runPass(signal) },
      quiet({ name: "duplicate MACs", everyMs, work: (signal) => macs.runPass(signal) }),
      { name: "lean allocations", everyMs: LEAN_INTERVAL_MS, work: (signal) => lean.runPass(signal) },
      quiet({ name: "the owner pods", everyMs, work: (signal) => ownerPods.runPass(signal) }, () => ownerPods.waits),
    ];
    this.#context = options;
  }

  definitionsChanged(): void {
    this.#definitionChanges += 1;
    this.#podAdoption.forget();
    this.sweeper.definitionsChanged();
  }

  warnCut({ key, namespace, name, uid }: SweptPod): void {
    const { log, events } = this.#context;
    const message = `the pod reports more than ${POD_ADDRESSES_MAX} addresses; the others are not read`;
    log.warn({ pod: key }, message);
    events.warn({ apiVersion: "v1", kind: "Pod", namespace, name, uid }, "TooManyAddresses", message);
  }
}

interface DuplicateMacsOptions {
  readonly clock: Clock;
  readonly caches: Pick<Caches, "allocations" | "pods">;
  readonly events: Pick<EventWriter, "warn">;
  readonly idle: () => string | null;
}

/** Tells the pods and VMs of interfaces that have one MAC on one network, by events. See docs/decisions/0069. */
class DuplicateMacs {
  readonly #options: DuplicateMacsOptions;

  constructor(options: DuplicateMacsOptions) {
    this.#options = options;
  }

  async runPass(signal: AbortSignal): Promise<void> {
    const { caches, idle, clock } = this.#options;
    const { allocations, pods } = caches;
    if (idle() !== null || !allocations.known || !pods.known) return;
    const users = await usersOfMacs(allocations.items.values(), clock, ({ namespace, name }) =>
      pods.items.get(`${namespace}/${name}`),
    );
    for (const group of duplicateMacs(users)) {
      if (signal.aborted || idle() !== null) return;
      const message = `${describeDuplicates(group)}; ${DUPLICATE_MAC_HINT}`;
      for (const one of group) this.#tell(one.pods, message);
    }
  }

  #tell(attached: readonly { namespace: string; name: string; uid: string }[], message: string): void {
    const { caches, events } = this.#options;
    for (const { namespace, name, uid } of attached) {
      const pod = caches.pods.items.get(`${namespace}/${name}`);
      if (pod === undefined || pod.terminal || !isPod(pod, uid)) continue;
      events.warn({ apiVersion: "v1", kind: "Pod", namespace, name, uid: pod.uid }, "DuplicateMAC", message);
      if (pod.vmi !== null) events.warn(vmiObject({ namespace, ...pod.vmi }), "DuplicateMAC", message);
    }
  }
}

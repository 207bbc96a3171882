import { Controller } from "../../../controller/controller.ts";
import type { ControllerSettings } from "../../../controller/settings.ts";
import type { Log } from "../../../platform/log.ts";
import type { ServerRequest } from "../../harness/kube-fake/requests.ts";
import type { VirtualClock } from "../../harness/virtual/virtual-clock.ts";
import { hashOf } from "../engine/chance.ts";
import type { ControllerPlace, FollowedKind, World } from "../world.ts";
import type { SimCluster } from "./cluster.ts";
import { controllerSettings } from "./controller-settings.ts";
import type { ClusterParts } from "./parts.ts";

/** Where they run; their clocks began so long ago, ms, and go so fast. */
const PLACES = [
  { name: "controller-a", originMs: 1_000_000, rate: 1 },
  { name: "controller-b", originMs: 77_000_000, rate: 1.0005 },
] as const;

/** What a controller of this identity is told, in a world of this seed. */
type SettingsOf = (identity: string, seed: number) => ControllerSettings;

/** Where etcd has the lease. */
export const LEASES = "coordination.k8s.io/leases";
export const LEASE = "holdfast-system/holdfast-controller";
/** So long after a restore a controller knows who leads, ms. */
const RESTORED_MS = 15_000;

/** Where one of Holdfast's controllers runs: each start is a new process with its own identity and link. */
export class SimController implements ControllerPlace {
  readonly name: string;
  /** See ControllerPlace. */
  isAbsent = false;
  readonly #parts: ClusterParts;
  readonly #cluster: SimCluster;
  readonly #place: (typeof PLACES)[number];
  #incarnation = 0;
  #running: Controller | null = null;
  #clock: VirtualClock | null = null;
  #restores = 0;
  #restoredMs = Number.NEGATIVE_INFINITY;

  readonly #settingsOf: SettingsOf;

  constructor(parts: ClusterParts, cluster: SimCluster, place: (typeof PLACES)[number], settingsOf: SettingsOf) {
    this.#settingsOf = settingsOf;
    this.#parts = parts;
    this.#cluster = cluster;
    this.#place = place;
    this.name = place.name;
  }

  get isRunning(): boolean {
    return this.#running !== null;
  }

  knowsSinceMs(kind: FollowedKind): number {
    const link = this.#cluster.links.find(({ name }) => name === this.link);
    return this.#running === null ? Number.POSITIVE_INFINITY : (link?.listedMs[kind] ?? Number.POSITIVE_INFINITY);
  }

  /** Of the one that runs. */
  get link(): string {
    return `${this.name}/${this.#incarnation}`;
  }

  /** Of the one that runs, in the lease. */
  get identity(): string {
    return `${this.name}-${this.#incarnation}`;
  }

  /** SIGKILL. */
  kill(): void {
    if (this.#running === null) return;
    this.#parts.story.tell(this.name, "is killed");
    this.#gone();
  }

  /** SIGTERM; it may be killed meanwhile. */
  async stop(): Promise<void> {
    const ending = this.#running;
    if (ending === null) return;
    this.#parts.story.tell(this.name, "is stopped");
    await ending.stop();
    if (this.#running === ending) this.#gone();
  }

  start(): void {
    if (this.#running !== null || this.isAbsent) return;
    this.#incarnation += 1;
    const { link, identity } = this;
    const { time, seed } = this.#parts;
    const clock = time.clock({ ...this.#place, seed: hashOf(`${seed} ${link}`) });
    this.#clock = clock;
    const connect = this.#cluster.connect("holdfast-controller", link);
    this.#running = new Controller(this.#settingsOf(identity, this.#parts.seed), this.#logOf(link), clock, connect);
    const way = this.#cluster.links.find(({ name }) => name === link);
    if (way !== undefined) way.sent = (request) => this.#checkLeads(request, identity);
    this.#parts.story.tell(this.name, `starts as ${identity}`);
    void this.#running.start();
  }

  /** SIGSTOP: it does nothing, and its connections stay open. */
  suspend(): void {
    this.#clock?.suspend({ monotonicPasses: true, bootPasses: true });
  }

  /** SIGCONT. */
  resume(): void {
    this.#clock?.resume();
  }

  get isSuspended(): boolean {
    return this.#clock?.isSuspended ?? false;
  }

  /** Whoever writes holds the lease. After a restore it may be that of somebody before, until the holder has asked. */
  #checkLeads({ method, path }: ServerRequest, identity: string): void {
    const { etcd, defects } = this.#cluster;
    const nowMs = this.#parts.clock.monotonicMs();
    if (etcd.restores !== this.#restores) this.#restoredMs = nowMs;
    this.#restores = etcd.restores;
    if (method === "GET" || path.includes("/leases") || nowMs - this.#restoredMs < RESTORED_MS) return;
    const holder = etcd.get(LEASES, LEASE)?.spec?.holderIdentity;
    if (holder !== identity) defects.push(`${identity} sends ${method} ${path} while ${holder} holds the lease`);
  }

  #gone(): void {
    this.#running = null;
    this.#clock?.kill();
    this.#cluster.cut(this.link);
  }

  #logOf(link: string): Log {
    const write = (level: string) => (fields: object | string, message?: string) => {
      if (this.link !== link || this.#running === null) return;
      const text = message === undefined ? `${fields}` : `${message} ${JSON.stringify(fields)}`;
      this.#parts.story.tell(this.name, `${level}: ${text}`);
    };
    const nothing = () => {};
    return { debug: nothing, info: nothing, warn: write("warning"), error: write("error") };
  }
}

/** Two of them; they do not run yet. */
export function makeControllers(
  world: World,
  cluster: SimCluster,
  settingsOf: SettingsOf = controllerSettings,
): SimController[] {
  const places = PLACES.map((place) => new SimController(world, cluster, place, settingsOf));
  world.onPeace({
    heal: () => {
      for (const place of places) place.resume();
    },
  });
  return places;
}

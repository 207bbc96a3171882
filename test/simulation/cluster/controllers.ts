import { Controller } from "../../../controller/controller.ts";
import type { Log } from "../../../platform/log.ts";
import type { ControllerPlace } from "../world.ts";
import type { SimCluster } from "./cluster.ts";
import { controllerSettings } from "./controller-settings.ts";
import type { ClusterParts } from "./parts.ts";

const NAMES = ["controller-a", "controller-b"] as const;
/** Their clocks begin so long ago, ms, and go so fast. */
const CLOCKS = [
  { originMs: 1_000_000, rate: 1 },
  { originMs: 77_000_000, rate: 1.0005 },
] as const;

/** Where one of Holdfast's controllers runs: each start is a new process with its own identity and link. */
export class SimController implements ControllerPlace {
  readonly name: string;
  /** Messages of the one that runs, warnings and errors only. */
  readonly log: string[] = [];
  readonly #parts: ClusterParts;
  readonly #cluster: SimCluster;
  readonly #clock: { readonly originMs: number; readonly rate: number };
  #incarnation = 0;
  #running: Controller | null = null;

  constructor(parts: ClusterParts, cluster: SimCluster, index: number) {
    this.#parts = parts;
    this.#cluster = cluster;
    this.name = NAMES[index] as string;
    this.#clock = CLOCKS[index] as (typeof CLOCKS)[number];
  }

  get isRunning(): boolean {
    return this.#running !== null;
  }

  /** The link of the one that runs. */
  get link(): string {
    return `${this.name}/${this.#incarnation}`;
  }

  /** SIGKILL. */
  kill(): void {
    if (this.#running === null) return;
    this.#running = null;
    this.#cluster.cut(this.link);
    this.#parts.story.tell(this.name, "is killed");
    this.#parts.counts.add("api.controller-killed");
  }

  start(): void {
    if (this.#running !== null) return;
    this.#incarnation += 1;
    const { link } = this;
    const clock = this.#parts.time.clock(this.#clock);
    const connect = this.#cluster.connect("holdfast-controller", link);
    const settings = controllerSettings(link.replace("/", "-"));
    const controller = new Controller(settings, this.#logOf(link), clock, connect);
    this.#running = controller;
    this.#parts.story.tell(this.name, "starts");
    void controller.start();
  }

  #logOf(link: string): Log {
    const write = (level: string) => (fields: object | string, message?: string) => {
      if (this.link !== link) return;
      const text = message === undefined ? String(fields) : `${message} ${JSON.stringify(fields)}`;
      this.log.push(text);
      this.#parts.story.tell(this.name, `${level}: ${text}`);
    };
    const nothing = () => {};
    return { debug: nothing, info: nothing, warn: write("warns"), error: write("error") };
  }
}

/** Two of them; they do not run yet. */
export function makeControllers(parts: ClusterParts, cluster: SimCluster): SimController[] {
  return NAMES.map((_name, index) => new SimController(parts, cluster, index));
}

import type { Clock, Timer } from "../../../platform/time.ts";
import type { StoreLog } from "../../node-context.ts";
import { isDamage } from "./database-file.ts";
import type { OpenDatabase } from "./open-database.ts";

/** Between two looks at the files of an open database, ms. */
const LOOK_MS = 1_000;

/** What somebody else did to the files. But for `displaced` the watch is over, and the database is to be closed. */
export interface FileEvents {
  meddled(why: string): void;
  /** `displaced` is another one. */
  displaced(): void;
  /** The files are damaged, or cannot be written. */
  failed(error: unknown, isDamage: boolean): void;
}

/** Looks at the files of an open database once a second, and has its log copied when it is full. */
export class FileWatch {
  readonly #file: OpenDatabase;
  readonly #clock: Clock;
  readonly #log: StoreLog;
  readonly #events: FileEvents;
  #timer: Timer | null = null;
  #isOver = false;
  #displaced: string | null = null;

  constructor(file: OpenDatabase, clock: Clock, log: StoreLog, events: FileEvents) {
    this.#file = file;
    this.#clock = clock;
    this.#log = log;
    this.#events = events;
    this.#rest();
  }

  /** Why nothing may be written although the database is open; null: it may. */
  get displaced(): string | null {
    return this.#displaced;
  }

  copyFullLog(): void {
    if (this.#file.isLogFull) this.#clock.immediate(() => this.#act(() => this.#file.copyLog()));
  }

  end(): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }

  #rest(): void {
    this.#timer = this.#clock.timer(LOOK_MS, () => {
      this.#act(() => this.#look());
      if (!this.#isOver) this.#rest();
    });
  }

  #look(): void {
    const found = this.#file.look();
    if (found !== "sound" && "meddled" in found) {
      this.end();
      this.#events.meddled(found.meddled);
      return;
    }
    const displaced =
      found === "sound"
        ? null
        : `${found.displaced}; nothing is allocated or released until it is back. What the daemon holds can be saved: holdfast backup FILE, then restart the daemon and holdfast rebuild --from FILE`;
    if (displaced === this.#displaced) return;
    this.#displaced = displaced;
    if (displaced === null) this.#log.info("the state directory is back; ADD is served");
    else this.#log.error(displaced);
    this.#events.displaced();
  }

  #act(work: () => void): void {
    if (this.#isOver) return;
    try {
      work();
    } catch (error) {
      this.end();
      this.#events.failed(error, isDamage(error));
    }
  }
}

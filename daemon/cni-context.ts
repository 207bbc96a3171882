import type { Logger } from "pino";
import type { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { WaitingRoom } from "./waiting-room.ts";
import type { WarnOnce } from "./warn-once.ts";

/** What the CNI verbs work with. */
export interface CniContext {
  readonly store: SqliteStore;
  readonly waiting: WaitingRoom;
  readonly log: Logger;
  readonly warnings: WarnOnce;
  readonly bootId: string;
  readonly addDeadlineMs: number;
  /** Why ADD cannot be served now; null when it can. */
  notReady(): string | null;
}

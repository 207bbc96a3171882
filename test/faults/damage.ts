/** Ways in which a state database comes to harm while no daemon has it open. */
import { closeSync, fstatSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

export interface Damage {
  readonly what: string;
  /** How the daemon ended before: after SIGKILL the write-ahead log is still there, and part of the truth. */
  readonly after: "SIGTERM" | "SIGKILL";
  /** What the reason says besides. */
  readonly says: RegExp;
  inflict(state: string): void;
}

const db = (state: string) => join(state, "holdfast.db");
const log = (state: string) => join(state, "holdfast.db-wal");

function overwrite(path: string, offset: number, length?: number): void {
  const fd = openSync(path, "r+");
  writeSync(fd, Buffer.alloc(length ?? fstatSync(fd).size - offset, 0xa5), 0, undefined, offset);
  closeSync(fd);
}

export const DAMAGES: readonly Damage[] = [
  {
    what: "database cut to three pages",
    after: "SIGTERM",
    says: /damaged/,
    inflict: (state) => truncateSync(db(state), 3 * 4_096),
  },
  {
    what: "database of garbage",
    after: "SIGTERM",
    says: /not a database/,
    inflict: (state) => overwrite(db(state), 0),
  },
  {
    what: "garbage behind a good first page",
    after: "SIGTERM",
    says: /damaged/,
    inflict: (state) => overwrite(db(state), 4_096),
  },
  {
    what: "text in place of the database",
    after: "SIGTERM",
    says: /not a database/,
    inflict: (state) => writeFileSync(db(state), "restored by hand\n".repeat(100)),
  },
  {
    what: "empty database",
    after: "SIGTERM",
    says: /holdfast\.db is gone or empty/,
    inflict: (state) => truncateSync(db(state), 0),
  },
  {
    what: "empty database beside its log",
    after: "SIGKILL",
    says: /holdfast\.db is gone or empty/,
    inflict: (state) => truncateSync(db(state), 0),
  },
  {
    what: "missing database beside its log",
    after: "SIGKILL",
    says: /holdfast\.db is gone or empty/,
    inflict: (state) => rmSync(db(state)),
  },
  {
    what: "missing log",
    after: "SIGKILL",
    says: /holdfast\.db-wal is gone or empty/,
    inflict: (state) => rmSync(log(state)),
  },
  {
    what: "empty log",
    after: "SIGKILL",
    says: /holdfast\.db-wal is gone or empty/,
    inflict: (state) => truncateSync(log(state), 0),
  },
  {
    what: "missing database and log",
    after: "SIGKILL",
    says: /nothing of it is left/,
    inflict: (state) => {
      rmSync(db(state));
      rmSync(log(state));
    },
  },
];

/** Ways in which a state database comes to harm while no daemon has it open. */
import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
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

function zero(path: string, share: number, length: number): void {
  const fd = openSync(path, "r+");
  writeSync(fd, Buffer.alloc(length), 0, length, Math.floor(fstatSync(fd).size * share));
  closeSync(fd);
}

/** Another bit in what the daemon has written: the page of a frame, 100 bytes in, at this share of the file. */
function flip(path: string, share: number): void {
  const fd = openSync(path, "r+");
  const frames = Math.floor((fstatSync(fd).size - 32) / 4_120);
  const at = 32 + Math.min(frames - 1, Math.floor(frames * share)) * 4_120 + 24 + 100;
  const byte = Buffer.alloc(1);
  readSync(fd, byte, 0, 1, at);
  writeSync(fd, Buffer.from([(byte[0] as number) ^ 4]), 0, 1, at);
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
    says: /page 1 of holdfast\.db is not as it was written/,
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
    says: /page 1 of holdfast\.db is not as it was written/,
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
  ...[0, 0.5, 0.95, 1].map(
    (share): Damage => ({
      what: `one bit at ${share} of its log`,
      after: "SIGKILL",
      says: /holdfast\.db-wal is damaged or cut, .*: it ends at commit \d+ of 6\d/,
      inflict: (state) => flip(log(state), share),
    }),
  ),
  {
    what: "eight bytes of its log's header zeroed",
    after: "SIGKILL",
    says: /the header of holdfast\.db-wal is damaged/,
    inflict: (state) => zero(log(state), 0, 8),
  },
  {
    what: "4 KiB of its log zeroed",
    after: "SIGKILL",
    says: /holdfast\.db-wal is damaged or cut/,
    inflict: (state) => zero(log(state), 0.5, 4_096),
  },
  {
    what: "its log cut in the middle",
    after: "SIGKILL",
    says: /holdfast\.db-wal is damaged or cut/,
    inflict: (state) => truncateSync(log(state), Math.floor(statSync(log(state)).size / 2)),
  },
  {
    what: "a log of another time",
    after: "SIGKILL",
    says: /holdfast\.db-wal .* is not the log that the daemon wrote/,
    inflict: (state) => {
      // Its header with other salts, and the checksum that they have.
      const bytes = readFileSync(log(state));
      bytes.writeUInt32BE((bytes.readUInt32BE(16) - 1) >>> 0, 16);
      let [first, second] = [0, 0];
      for (let at = 0; at < 24; at += 8) {
        first = (first + bytes.readUInt32LE(at) + second) >>> 0;
        second = (second + bytes.readUInt32LE(at + 4) + first) >>> 0;
      }
      bytes.writeUInt32BE(first, 24);
      bytes.writeUInt32BE(second, 28);
      writeFileSync(log(state), bytes);
    },
  },
  {
    what: "a page of zeroes",
    after: "SIGTERM",
    says: /page \d+ of holdfast\.db is not as it was written/,
    inflict: (state) => zero(db(state), 0.5, 4_096),
  },
  {
    what: "all but its file removed",
    after: "SIGKILL",
    says: /its files are an older copy: it ends at commit \d+ of 6\d, as .*s\.sock\.state remembers/,
    inflict: (state) => {
      for (const name of readdirSync(state)) if (name !== "holdfast.db") rmSync(join(state, name), { recursive: true });
    },
  },
  {
    what: "an emptied directory",
    after: "SIGTERM",
    says: /its database is gone, though a daemon had it open since this machine was started/,
    inflict: (state) => {
      for (const name of readdirSync(state)) rmSync(join(state, name), { recursive: true });
    },
  },
];

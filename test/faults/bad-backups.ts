/** Files that must not be taken for a backup. */
import { copyFileSync, mkdirSync, statSync, truncateSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import type { StandaloneNode } from "./standalone-node.ts";

export interface BadBackup {
  readonly what: string;
  readonly path: string;
  readonly says: RegExp;
}

/** Made in the node's directory, from a good backup. */
export function badBackups(node: StandaloneNode, good: string): BadBackup[] {
  const make = (what: string, says: RegExp, write: (path: string) => void): BadBackup => {
    const path = node.path(`${what.replaceAll(" ", "-")}.backup`);
    write(path);
    return { what, path, says };
  };
  return [
    make("missing", /does not exist/, () => {}),
    make("directory", /directory\.backup/, (path) => mkdirSync(path)),
    make("empty", /schema version 0/, (path) => writeFileSync(path, "")),
    make("text", /not a database/, (path) => writeFileSync(path, "not a backup\n".repeat(1_000))),
    make("cut short", /not a sound/, (path) => {
      copyFileSync(good, path);
      truncateSync(path, statSync(path).size - 3 * 4_096);
    }),
    make("of a newer release", /schema version 999/, (path) => {
      copyFileSync(good, path);
      alter(path, "PRAGMA user_version = 999");
    }),
    make("of another application", /no such table/, (path) => {
      alter(path, "CREATE TABLE things (id INTEGER); PRAGMA user_version = 1");
    }),
    make("without one table", /no such table/, (path) => {
      copyFileSync(good, path);
      alter(path, "DROP TABLE uses");
    }),
  ];
}

function alter(path: string, sql: string): void {
  const db = new Database(path);
  db.exec(sql);
  db.close();
}

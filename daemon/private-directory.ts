import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  type Stats,
  statSync,
} from "node:fs";
import { join } from "node:path";
import type { Finding } from "../ipam/finding.ts";
import type { Log } from "../platform/log.ts";

/** The rights of everybody but the owner. */
const OTHERS = 0o077;
/** Files of others that cannot remove each other's, as in /tmp. */
const STICKY = 0o1000;

export interface PrivateDirectory {
  readonly path: string;
  readonly flag: "state" | "spool";
  /** Whether a name in it is one of those that Holdfast makes there. */
  isOurs(name: string): boolean;
}

/**
 * Takes the rights of others from our files in the directory, and from the directory if nobody else can need it: it is
 * this user's and has nothing but files of ours. What is left open is logged, and named by `checkPrivate`. The rights
 * of a directory that was there before the daemon are those of whoever made it: mkdir, a container volume, the kubelet.
 *
 * Call it before the database is opened: it opens files, and closing one ends the locks that SQLite has on it.
 */
export function makePrivate(directory: PrivateDirectory, log: Log): void {
  const closed: string[] = [];
  const { mode } = statSync(directory.path);
  if ((mode & OTHERS) !== 0 && whyNotOurs(directory) === null && takeRights(directory.path, 0o700))
    closed.push(`the directory (mode ${octal(mode)})`);
  for (const { name, path, lstat } of openFiles(directory))
    if (lstat.isFile() && (lstat.mode & OTHERS) !== 0 && takeRights(path, 0o600))
      closed.push(`${name} (mode ${octal(lstat.mode)})`);
  if (closed.length > 0)
    log.warn(`${directory.flag} directory ${directory.path} was open to others; closed: ${closed.join(", ")}`);
  for (const { message, hint } of checkPrivate(directory)) log.warn(`${message}; ${hint}`);
}

export function checkPrivate(directory: PrivateDirectory): Finding[] {
  const stat = statSync(directory.path, { throwIfNoEntry: false });
  if (stat === undefined) return [];
  const isPrivate = (stat.mode & OTHERS) === 0 && stat.uid === ownUid();
  return isPrivate ? [] : [openDirectory(directory, stat), ...openFiles(directory).map(openFile)];
}

function openDirectory(directory: PrivateDirectory, { mode, uid }: Stats): Finding {
  const { path, flag } = directory;
  const why = whyNotOurs(directory);
  const message = `users other than the daemon's can enter the ${flag} directory ${path} (mode ${octal(mode)}, user ${uid})${why === null ? "" : `; it was left so because ${why}`}`;
  const hint = `give --${flag} a directory of its own; or, if nobody else needs this one: chown ${ownUid()} ${path} && chmod 0700 ${path}`;
  return { invariant: "private", message, hint };
}

function openFile({ path, stat }: FileOfOurs): Finding {
  const message = `users other than the daemon's can read ${path} (mode ${octal(stat.mode)}, user ${stat.uid})`;
  return { invariant: "private", message, hint: `chown ${ownUid()} ${path} && chmod 0600 ${path}` };
}

/** Why the rights of the directory itself are not for us to change; null: they are. */
function whyNotOurs({ path, isOurs }: PrivateDirectory): string | null {
  if (lstatSync(path).isSymbolicLink()) return "it is a symbolic link";
  const { uid, mode } = statSync(path);
  if (uid !== ownUid()) return "it is another user's";
  if ((mode & STICKY) !== 0) return "it is shared (its sticky bit is set)";
  for (const name of readdirSync(path)) {
    if (!isOurs(name)) return `${name} in it is not Holdfast's`;
    if (lstatSync(join(path, name), { throwIfNoEntry: false })?.uid !== uid) return `${name} in it is another user's`;
  }
  return null;
}

interface FileOfOurs {
  readonly name: string;
  readonly path: string;
  /** Of the name itself, which may be a link. */
  readonly lstat: Stats;
  /** Of the file that is read by this name. */
  readonly stat: Stats;
}

function openFiles(directory: PrivateDirectory): FileOfOurs[] {
  return readdirSync(directory.path)
    .filter((name) => directory.isOurs(name))
    .flatMap((name) => {
      const path = join(directory.path, name);
      const lstat = lstatSync(path, { throwIfNoEntry: false });
      const stat = statSync(path, { throwIfNoEntry: false });
      if (lstat === undefined || !stat?.isFile()) return [];
      return (stat.mode & OTHERS) !== 0 || stat.uid !== ownUid() ? [{ name, path, lstat, stat }] : [];
    });
}

/**
 * Returns whether it could: only the owner can. What has taken the place of the file or directory since it was looked
 * at is refused: a symbolic link is not followed, a FIFO does not block, and a file of another user keeps its rights.
 */
function takeRights(path: string, mode: number): boolean {
  let descriptor: number | null = null;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stat = fstatSync(descriptor);
    if (stat.uid !== ownUid() || !(stat.isFile() || stat.isDirectory())) return false;
    fchmodSync(descriptor, mode);
    return true;
  } catch {
    return false;
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}

function octal(mode: number): string {
  return `0${(mode & 0o7777).toString(8).padStart(3, "0")}`;
}

function ownUid(): number {
  return process.geteuid?.() ?? 0;
}

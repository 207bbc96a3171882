import { constants, lstatSync, statSync, unlinkSync } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import {
  LEASE_BYTES_MAX,
  type LeaseHolder,
  leaseAddress,
  leaseHolder,
} from "../../ipam/definition/host-local-lease.ts";
import type { Address } from "../../ipam/space/address.ts";
import { severalAtOnce } from "../../platform/several-at-once.ts";
import { type Clock, nextTurn } from "../../platform/time.ts";

/** Files read in parallel: a large directory is read within seconds, and other processes use the disk too. */
const READ_AT_ONCE = 32;

/** Files checked, at some microseconds each, before other work gets its turn. */
const LOOKS_PER_TURN = 200;

/** One address that host-local has allocated: a file. */
export interface Lease {
  readonly address: Address;
  readonly path: string;
  /** Inode and last change; a different one is a different lease. Without the device, whose number may change. */
  readonly fileId: string;
  /** null: the file names no container (host-local was killed between creating and writing it). */
  readonly holder: LeaseHolder | null;
}

/** A directory or file that exists and cannot be read. Unknown means in use. */
export class LeaseProblem extends Error {
  readonly path: string;

  constructor(path: string, problem: string) {
    super(problem);
    this.path = path;
  }
}

/** Changes as files come and go; null: no directory. Synchronous: microseconds at every ADD. Throws LeaseProblem. */
export function directoryVersion(directory: string): string | null {
  try {
    const found = statSync(directory, { bigint: true, throwIfNoEntry: false });
    if (found === undefined) return null;
    if (!found.isDirectory()) throw new LeaseProblem(directory, "it is not a directory");
    return `${found.ino}:${found.mtimeNs}:${found.ctimeNs}`;
  } catch (error) {
    throw problemOf(directory, error);
  }
}

/** The kernel stamps directories with a clock that ticks every 1 to 10 ms: two changes in a tick look like one. */
export const TICK_MS_MAX = 50;

/** Leases that no later change in its clock tick can have changed: written well before the directory's last change. */
export function steadyLeases(leases: readonly Lease[], version: string): Lease[] {
  const [, changedNs = "0"] = version.split(":");
  const steadyNs = BigInt(changedNs) - BigInt(TICK_MS_MAX) * 1_000_000n;
  return leases.filter(({ fileId }) => BigInt(fileId.split(":")[1] ?? changedNs) < steadyNs);
}

/**
 * Every lease of a directory, in no order. Files unchanged since `former` are not opened again: a runtime that ends a
 * thousand containers changes the directory as often. Throws LeaseProblem: an unreadable lease may be any container's.
 */
export async function readLeases(clock: Clock, directory: string, former: readonly Lease[] = []): Promise<Lease[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    throw problemOf(directory, error);
  });
  const known = new Map(former.map((lease) => [lease.path, lease]));
  const leases: Lease[] = [];
  const changed: Pick<Lease, "address" | "path">[] = [];
  for (const [at, name] of names.entries()) {
    if (at % LOOKS_PER_TURN === LOOKS_PER_TURN - 1) await nextTurn(clock);
    const path = join(directory, name);
    const before = known.get(path);
    const address = before === undefined ? leaseAddress(name) : before.address;
    if (address === null) continue;
    if (before !== undefined && isUnchanged(before)) leases.push(before);
    else changed.push({ address, path });
  }
  await severalAtOnce(changed, READ_AT_ONCE, async (next) => {
    const read = await readLease(next.path);
    if (read !== null) leases.push({ ...next, ...read });
  });
  return leases;
}

/** Removes a lease's file as host-local would, unless it is another lease by now. Throws errors of the file system. */
export function removeLease(path: string, fileId: string): void {
  const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  if (found?.isFile() && fileIdOf(found) === fileId) unlinkSync(path);
}

/** Whether the file is the one that was read. If that is unknown, it is read again, which reports the problem. */
function isUnchanged({ path, fileId }: Lease): boolean {
  try {
    const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    return found?.isFile() === true && fileIdOf(found) === fileId;
  } catch {
    return false;
  }
}

/** null when the file is gone by now. Never blocks on a pipe and never follows a link out of the directory. */
async function readLease(path: string): Promise<Pick<Lease, "fileId" | "holder"> | null> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const found = await file.stat({ bigint: true });
      if (!found.isFile()) throw new LeaseProblem(path, "it is not a regular file");
      const buffer = Buffer.alloc(LEASE_BYTES_MAX);
      const { bytesRead } = await file.read(buffer, 0, LEASE_BYTES_MAX, 0);
      const text = bytesRead < LEASE_BYTES_MAX ? buffer.toString("utf8", 0, bytesRead) : "";
      return { fileId: fileIdOf(found), holder: leaseHolder(text) };
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw problemOf(path, error);
  }
}

function fileIdOf({ ino, mtimeNs }: { readonly ino: bigint; readonly mtimeNs: bigint }): string {
  return `${ino}:${mtimeNs}`;
}

function problemOf(path: string, error: unknown): LeaseProblem {
  if (error instanceof LeaseProblem) return error;
  const { code = "", message } = error as NodeJS.ErrnoException;
  if (code === "ELOOP" || code === "ENXIO") return new LeaseProblem(path, "it is not a regular file");
  return new LeaseProblem(path, message);
}

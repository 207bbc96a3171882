/**
 * When a runtime's request began: the boot, and CLOCK_BOOTTIME at the shim's start. Runtimes use container IDs
 * again, and a DEL may be delivered late from the spool; the stamp tells which request came first.
 */
export interface Stamp {
  /** As the daemon of the node names it, or the kernel where no daemon has; "": nobody could tell. */
  readonly bootId: string;
  /** Microseconds of CLOCK_BOOTTIME. */
  readonly us: number;
}

/**
 * Whether the request stamped `a` began before the one stamped `b`. Within a boot the clock decides. Across boots only
 * this is known: a request of another boot is older than one of the present boot. One that could not tell its boot is
 * taken to be later than every former boot, and older than all of this.
 */
export function isBefore(a: Stamp, b: Stamp, presentBootId: string): boolean {
  if (a.bootId === b.bootId) return a.us < b.us;
  if (b.bootId === "") return a.bootId !== presentBootId;
  return b.bootId === presentBootId;
}

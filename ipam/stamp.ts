/**
 * When a runtime's request began: the boot it was made in and CLOCK_BOOTTIME at the shim's start. Runtimes use
 * container IDs again, and a DEL may be delivered late from the spool; the stamp tells which came first.
 */
export interface Stamp {
  /** /proc/sys/kernel/random/boot_id of the node. */
  readonly bootId: string;
  /** Microseconds of CLOCK_BOOTTIME. */
  readonly us: number;
}

/**
 * Whether what was stamped `a` began before `b`. Within a boot the clock decides. Across boots only one thing is
 * known: what is not of the present boot is older than what is.
 */
export function isBefore(a: Stamp, b: Stamp, presentBootId: string): boolean {
  if (a.bootId === b.bootId) return a.us < b.us;
  return b.bootId === presentBootId;
}

/*
 * platform/: what every process has, whatever it does
 *
 *   time, bell                 clocks, and waiting for a condition
 *   run-process, settings/     the frame of a process: its settings, signals, exit code; host-port, groups
 *   log, warn-once             what is said, and how often
 *   health-server              /healthz, /readyz, /metrics
 *   socket, api-query, api-error    unix sockets and what is asked on them
 *   boot-id, namespaces, resolv-conf, folders, watched-file, write-durably   the machine
 *   kill-point                 where a crash is tested
 */

/** Time, as the one port through which production code and tests read it. */
export interface Clock {
  /** Milliseconds of a clock that never jumps. Every duration, rest and deadline is measured on it. */
  monotonicMs(): number;
  /** Milliseconds since the epoch. For people to read (history, `since`); it never decides anything. */
  wallMs(): number;
}

export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
};

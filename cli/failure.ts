/** How a command ends, for scripts. */
export const EXIT = {
  ok: 0,
  /** Found a fault, or was refused. */
  refused: 1,
  /** Called in a way that cannot be meant. */
  usage: 2,
  /** Nobody answers on the socket. */
  unreachable: 3,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** An outcome that the operator should read: what is the case, and what to do about it. */
export class CommandError extends Error {
  readonly hint: string;
  readonly exitCode: ExitCode;
  /** `code` of the daemon's error; "" when the failure is our own. */
  readonly code: string;

  constructor(message: string, options: { hint?: string; exitCode?: ExitCode; code?: string } = {}) {
    super(message);
    this.hint = options.hint ?? "";
    this.exitCode = options.exitCode ?? EXIT.refused;
    this.code = options.code ?? "";
  }
}

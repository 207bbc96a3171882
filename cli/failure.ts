/** Exit codes, for scripts. */
export const EXIT = {
  ok: 0,
  /** A fault was found, or the request was refused. */
  refused: 1,
  usage: 2,
  unreachable: 3,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export class CommandError extends Error {
  readonly hint: string;
  readonly exitCode: ExitCode;
  /** `code` of the daemon's error; "" when the error is our own. */
  readonly code: string;

  constructor(message: string, options: { hint?: string; exitCode?: ExitCode; code?: string } = {}) {
    super(message);
    this.hint = options.hint ?? "";
    this.exitCode = options.exitCode ?? EXIT.refused;
    this.code = options.code ?? "";
  }
}

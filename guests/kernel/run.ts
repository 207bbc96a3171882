import { spawn } from "node:child_process";

export interface Ran {
  /** null: it could not be started, or passed a limit; `stderr` says which. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What hangs longer hangs for ever: every command here takes milliseconds. */
const COMMAND_MS_MAX = 10_000;
/** A bridge with a thousand ports prints less than half of it. */
const OUTPUT_CHARS_MAX = 1 << 22;

export interface RunLimits {
  /** ms */
  readonly timeMax?: number;
  /** Characters of each of the two outputs. */
  readonly outputMax?: number;
  readonly signal?: AbortSignal | undefined;
}

/** Runs a command to its end, or until it passes a limit. Never rejects. */
export function run(
  command: string,
  args: readonly string[],
  input = "",
  { timeMax = COMMAND_MS_MAX, outputMax = OUTPUT_CHARS_MAX, signal }: RunLimits = {},
): Promise<Ran> {
  return new Promise((resolve) => {
    const limits = { timeout: timeMax, killSignal: "SIGKILL" } as const;
    const child = spawn(command, args, {
      stdio: ["pipe", "pipe", "pipe"],
      ...limits,
      ...(signal && { signal }),
    });
    const out = { stdout: "", stderr: "" };
    let limit = "";
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (chunk: string) => {
        if (out[stream].length + chunk.length <= outputMax) {
          out[stream] += chunk;
          return;
        }
        limit ||= `printed more than ${outputMax} characters`;
        child.kill("SIGKILL");
      });
    }
    const done = (code: number | null, why = "") => {
      resolve({ code, ...out, stderr: why === "" ? out.stderr : why });
    };
    child.on("error", (error) => done(null, `${command} cannot be run: ${error.message}`));
    child.on("close", (code) => {
      // By the time limit, unless we have killed it above.
      if (child.killed) limit ||= `took longer than ${timeMax} ms`;
      if (limit !== "") done(null, `${command} ${limit}`);
      else done(code, code === null ? `${command} was killed` : "");
    });
    // It may end without reading everything.
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

/** As `run`; throws an Error with what the command printed when it fails. */
export async function mustRun(command: string, args: readonly string[], input = ""): Promise<string> {
  const ran = await run(command, args, input);
  if (ran.code !== 0) throw new CommandFailed(command, args, ran.stderr.trim() || ran.stdout.trim());
  return ran.stdout;
}

class CommandFailed extends Error {
  constructor(command: string, args: readonly string[], said: string) {
    super(`${[command, ...args].join(" ").slice(0, 200)}: ${said.slice(0, 500) || "failed without a word"}`);
  }
}

import { spawn } from "node:child_process";

export interface Ran {
  /** null: it could not be started, or took too long; `stderr` says which. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What hangs longer hangs for ever: every command here takes milliseconds. */
const COMMAND_MS_MAX = 10_000;

/** Runs a command to its end. Never rejects. */
export function run(command: string, args: readonly string[], input = ""): Promise<Ran> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    const out = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (chunk: string) => {
        out[stream] += chunk;
      });
    }
    const timer = setTimeout(() => child.kill("SIGKILL"), COMMAND_MS_MAX);
    const done = (code: number | null, why = "") => {
      clearTimeout(timer);
      resolve({ code, ...out, stderr: why === "" ? out.stderr : why });
    };
    child.on("error", (error) => done(null, `${command} cannot be run: ${error.message}`));
    child.on("close", (code) =>
      done(code, code === null ? `${command} took longer than ${COMMAND_MS_MAX} ms` : ""),
    );
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

import { spawn } from "node:child_process";
import { once } from "node:events";

/** A Python program that runs until its standard input ends. */
export interface PythonProcess {
  /** Ends its input, and resolves with everything that it has printed. */
  stop(): Promise<string>;
}

/** A network namespace by its name, the command that runs another one in it, or null: that of the machine. */
export type Place = string | readonly string[] | null;

/** Starts it there, and waits for its first output. */
export async function startPython(place: Place, script: string, args: readonly string[]): Promise<PythonProcess> {
  const within = typeof place === "string" ? ["ip", "netns", "exec", place] : (place ?? []);
  const [command, ...words] = [...within, "python3", "-c", script, ...args] as [string, ...string[]];
  const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  await Promise.race([
    once(child.stdout, "data"),
    once(child, "exit").then(() => Promise.reject(new Error(`python ended in ${String(place)}`))),
  ]);
  return {
    stop: async () => {
      const closed = once(child, "close");
      child.stdin.end();
      await closed;
      return text;
    },
  };
}

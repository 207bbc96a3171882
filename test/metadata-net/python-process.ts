import { spawn } from "node:child_process";
import { once } from "node:events";

/** A Python program that runs until its standard input ends. */
export interface PythonProcess {
  /** Ends its input, and resolves with everything that it has printed. */
  stop(): Promise<string>;
}

/** Starts it in a network namespace, null: that of the machine, and waits for its first output. */
export async function startPython(
  namespace: string | null,
  script: string,
  args: readonly string[],
): Promise<PythonProcess> {
  const within = namespace === null ? [] : ["ip", "netns", "exec", namespace];
  const [command, ...words] = [...within, "python3", "-c", script, ...args] as [string, ...string[]];
  const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk;
  });
  await once(child.stdout, "data");
  return {
    stop: async () => {
      const closed = once(child, "close");
      child.stdin.end();
      await closed;
      return text;
    },
  };
}

import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HOLDFAST, run, SHIM, type TestDaemon } from "../harness/daemon.ts";
import { normalise } from "./normalise.ts";

/**
 * A script file: what an operator types and what they see, then the files that the commands read.
 *
 *   # what this part shows
 *   $ holdfast who 10.10.0.9
 *   ! error: nobody holds 10.10.0.9        (a line on stderr)
 *   = 1                                    (the exit code, unless it is 0)
 *
 *   -- claims.yaml --
 *   kind: IPAMClaim …
 *
 * Each command is one line for bash, in the directory of the files. Beside holdfast there are `add NETWORK CONTAINER
 * [INTERFACE] [CNI_ARGS]` and `del …`, which do what a container runtime would, with NETWORK.json as the configuration.
 */
export interface Script {
  readonly steps: readonly Step[];
  readonly files: ReadonlyMap<string, string>;
}

interface Step {
  /** The comment and blank lines above the command, kept for the transcript. */
  readonly above: string;
  readonly command: string;
}

export function parseScript(text: string): Script {
  const [body = "", ...parts] = text.split(/^-- (.+) --\n/m);
  const files = new Map<string, string>();
  for (let at = 0; at < parts.length; at += 2) files.set(parts[at] as string, `${(parts[at + 1] ?? "").trimEnd()}\n`);
  const steps: Step[] = [];
  let above = "";
  for (const line of body.split("\n")) {
    if (line.startsWith("#")) above += `${line}\n`;
    if (!line.startsWith("$ ")) continue;
    steps.push({ above, command: line.slice(2) });
    above = "";
  }
  return { steps, files };
}

/** The part of a script file before its files: what a run of it must look like. */
export function transcriptIn(text: string): string {
  return `${(text.split(/^-- .+ --\n/m)[0] as string).trimEnd()}\n`;
}

/** Runs the commands in order against a daemon and writes down what was seen. */
export async function runScript(script: Script, daemon: TestDaemon): Promise<string> {
  const cwd = join(daemon.directory, "work");
  prepare(cwd, script.files);
  const env = {
    PATH: `${join(cwd, ".bin")}:${dirname(process.execPath)}:/usr/bin:/bin`,
    HOLDFAST_SOCKET: daemon.socket,
    HOLDFAST_SPOOL: daemon.spool,
    STATE: daemon.state,
  };
  let transcript = "";
  for (const { above, command } of script.steps) {
    const { code, stdout, stderr } = await run("bash", ["-c", `cd ${cwd} && ${command}`], env);
    const seen = normalise(stdout, daemon.directory) + normalise(stderr, daemon.directory).replace(/^(?=.)/gm, "! ");
    const exit = code === 0 ? "" : `= ${code}\n`;
    transcript += `${above === "" ? "" : `\n${above}`}$ ${command}\n${seen}${exit}`;
  }
  return transcript.trimStart();
}

const RUNTIME = `#!/bin/bash
export CNI_COMMAND=VERB CNI_CONTAINERID=$2 CNI_NETNS=/run/netns/$2 CNI_IFNAME=\${3:-eth0} CNI_ARGS=\${4:-} CNI_PATH=/opt/cni/bin
answer=$(${SHIM} < "$1.json") || { echo "$answer" >&2; exit 1; }
`;

function prepare(cwd: string, files: ReadonlyMap<string, string>): void {
  mkdirSync(join(cwd, ".bin"), { recursive: true });
  symlinkSync(HOLDFAST, join(cwd, ".bin/holdfast"));
  for (const verb of ["add", "del"]) {
    writeFileSync(join(cwd, ".bin", verb), RUNTIME.replace("VERB", verb.toUpperCase()));
    chmodSync(join(cwd, ".bin", verb), 0o755);
  }
  for (const [name, content] of files) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true });
    writeFileSync(join(cwd, name), content);
  }
}

import { run } from "../../kernel/run.ts";

/** OpenFlow 1.4 is the first with bundles; a bridge speaks all versions unless its `protocols` say otherwise. */
const VERSIONS = "OpenFlow14,OpenFlow15";
/** A bundle for a thousand ports takes two seconds on a busy machine. */
const ANSWER_SECONDS_MAX = 8;
/** A difference of all flows of a bridge with a thousand ports. */
const LIMITS = { timeMax: 9_000, outputMax: 1 << 24 };

/** It reads a named file: our end is a socket, which has no name that could be opened. */
const THROUGH_PIPE = 'cat | ovs-ofctl "$@"';

/** What is needed to run ovs-ofctl for a bridge, before its words. */
export const OFCTL_ARGS: readonly string[] = ["-O", VERSIONS];

/** Flows of one bridge with one cookie, by processes of ovs-ofctl. All methods throw an Error for the operator. */
export class Ofctl {
  readonly #socket: string;
  readonly #cookie: string;

  /** `socket`: of the bridge, `unix:…`. */
  constructor(socket: string, cookie: string) {
    this.#socket = socket;
    this.#cookie = cookie;
  }

  /** In one transaction of the switch, or not at all. */
  async change(lines: string): Promise<void> {
    await this.#run(["--bundle", "add-flows"], ["-"], lines);
  }

  async clear(): Promise<void> {
    await this.change(`delete cookie=${this.#cookie}/-1\n`);
  }

  async count(): Promise<number> {
    const answer = await this.#run(["dump-aggregate"], [`cookie=${this.#cookie}/-1`]);
    return Number(/flow_count=(\d+)/.exec(answer)?.[1]);
  }

  /** The lines in which the switch's flows (`-`) and these (`+`) differ. */
  async diff(flows: string): Promise<string> {
    const words = this.#words(["diff-flows"], ["/dev/stdin"]);
    const ran = await run("sh", ["-c", THROUGH_PIPE, "sh", ...words], flows, LIMITS);
    // As diff(1): 2 is that they differ.
    if (ran.code !== 0 && ran.code !== 2) throw failure("diff-flows", ran.stderr);
    return ran.stdout;
  }

  /** Numbers of the bridge's ports by name, as the switch itself has them. */
  async ports(): Promise<ReadonlyMap<string, number>> {
    const answer = await this.#run(["dump-ports-desc"], []);
    return new Map(
      [...answer.matchAll(/^ (\d+)\((.+)\): addr:/gm)].map(([, port, name]) => [name as string, Number(port)]),
    );
  }

  async #run(command: readonly string[], args: readonly string[], input = ""): Promise<string> {
    const ran = await run("ovs-ofctl", this.#words(command, args), input, LIMITS);
    if (ran.code !== 0) throw failure(command.at(-1) as string, ran.stderr);
    return ran.stdout;
  }

  #words(command: readonly string[], args: readonly string[]): readonly string[] {
    return [...OFCTL_ARGS, `--timeout=${ANSWER_SECONDS_MAX}`, ...command, this.#socket, ...args];
  }
}

/** null: there is no ovs-ofctl that can be run. */
export async function ofctlVersion(): Promise<string | null> {
  const ran = await run("ovs-ofctl", ["--version"]);
  return ran.code === 0 ? (/\) (\S+)/.exec(ran.stdout)?.[1] ?? "?") : null;
}

function failure(command: string, stderr: string): Error {
  const said = stderr.trim().split("\n").at(-1) ?? "";
  return new Error(`ovs-ofctl ${command} failed: ${said.slice(0, 300)}`);
}

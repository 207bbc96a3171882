import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../daemon.ts";
import { untilListening } from "../wait.ts";

const SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema";

export interface OvsOptions {
  /** A datapath that moves nothing, for flows that are traced. It needs no root. */
  readonly dummy?: boolean;
}

/**
 * A private Open vSwitch: ovsdb-server and, once asked for, ovs-vswitchd, with everything of theirs in one directory.
 */
export class Ovs {
  readonly directory = mkdtempSync(join(tmpdir(), "holdfast-ovs-"));
  readonly #options: OvsOptions;
  /** The network namespace that ovs-vswitchd runs in; null: that of the machine. */
  #namespace: string | null = null;
  #database: ChildProcess | null = null;
  #switch: ChildProcess | null = null;

  private constructor(options: OvsOptions) {
    this.#options = options;
  }

  /** With an empty database, and no ovs-vswitchd. */
  static async database(options: OvsOptions = {}): Promise<Ovs> {
    const ovs = new Ovs(options);
    await ovs.#mustRun("ovsdb-tool", ["create", join(ovs.directory, "conf.db"), SCHEMA]);
    await ovs.startDatabase();
    await ovs.vsctl("--no-wait", "init");
    return ovs;
  }

  /** With ovs-vswitchd. */
  static async start(options: OvsOptions = {}): Promise<Ovs> {
    const ovs = await Ovs.database(options);
    await ovs.startSwitch();
    return ovs;
  }

  get socket(): string {
    return join(this.directory, "db.sock");
  }

  async startDatabase(): Promise<void> {
    rmSync(this.socket, { force: true });
    this.#database = this.#spawn("ovsdb-server", [
      join(this.directory, "conf.db"),
      `--remote=punix:${this.socket}`,
      `--unixctl=${join(this.directory, "ovsdb.ctl")}`,
    ]);
    await untilListening(this.socket);
  }

  async endDatabase(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    await end(this.#database, signal);
    this.#database = null;
  }

  /** `namespace`: with the userspace datapath it has a whole network namespace for itself. Default: the last one. */
  async startSwitch(namespace = this.#namespace): Promise<void> {
    this.#namespace = namespace;
    const dummy = ["--enable-dummy=override", "--disable-system", "--disable-system-route"];
    const control = join(this.directory, "vswitchd.ctl");
    rmSync(control, { force: true });
    const args = [...(this.#options.dummy ? dummy : []), `unix:${this.socket}`, `--unixctl=${control}`];
    this.#switch = this.#spawn("ovs-vswitchd", args, namespace);
    await untilListening(control);
    // Waits until it has made everything that is in the database.
    await this.vsctl("set", "Open_vSwitch", ".", `external_ids:hostname=test-${this.#switch.pid}`);
  }

  async endSwitch(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    await end(this.#switch, signal);
    this.#switch = null;
  }

  /** Resolves with what ovs-vsctl prints. */
  vsctl(...args: readonly string[]): Promise<string> {
    return this.#mustRun("ovs-vsctl", [`--db=unix:${this.socket}`, "--timeout=20", ...args]);
  }

  ofctl(args: readonly string[], input = ""): Promise<string> {
    return this.#mustRun("ovs-ofctl", ["-O", "OpenFlow15", ...args], input);
  }

  /** Asks ovs-vswitchd. */
  appctl(...args: readonly string[]): Promise<string> {
    return this.#mustRun("ovs-appctl", ["-t", join(this.directory, "vswitchd.ctl"), ...args]);
  }

  /** Ends it, and removes its directory. What it has in a namespace goes with the namespace. */
  async stop(): Promise<void> {
    await this.endSwitch();
    await this.endDatabase();
    rmSync(this.directory, { recursive: true, force: true });
  }

  #spawn(program: string, args: readonly string[], namespace: string | null = null): ChildProcess {
    const within = namespace === null ? [] : ["ip", "netns", "exec", namespace];
    const log = [`--log-file=${join(this.directory, `${program}.log`)}`, "-vconsole:off"];
    const [command, ...words] = [...within, program, ...args, ...log] as [string, ...string[]];
    return spawn(command, words, { env: this.#environment(), stdio: "ignore" });
  }

  async #mustRun(command: string, args: readonly string[], input = ""): Promise<string> {
    const { code, stdout, stderr } = await run(command, args, this.#environment(), input);
    if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  #environment(): Record<string, string> {
    const names = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
    const path = `${process.env.PATH}:/usr/sbin:/sbin`;
    return { PATH: path, ...Object.fromEntries(names.map((name) => [name, this.directory])) };
  }
}

async function end(child: ChildProcess | null, signal: NodeJS.Signals): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
}

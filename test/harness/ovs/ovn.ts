import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../daemon.ts";
import { untilListening } from "../wait.ts";
import { Ovs } from "./ovs.ts";

const SCHEMAS = "/usr/share/ovn";
const PATH = `${process.env.PATH}:/usr/sbin:/sbin`;

// biome-ignore lint/suspicious/noExplicitAny: rows of any table
export type OvnRow = Record<string, any>;

/** Northbound and southbound database with ovn-northd between them, in a directory of their own. */
export class OvnCentral {
  readonly directory = mkdtempSync(join(tmpdir(), "holdfast-ovn-"));
  readonly #processes = new Map<string, ChildProcess>();

  private constructor() {}

  /** With empty databases. `northd: false`: rows are kept, and nobody acts on them. */
  static async start({ northd = true } = {}): Promise<OvnCentral> {
    const central = new OvnCentral();
    await central.startDatabase("nb");
    await central.startDatabase("sb");
    if (northd) central.startNorthd();
    return central;
  }

  get northbound(): string {
    return join(this.directory, "ovnnb_db.sock");
  }

  get southbound(): string {
    return join(this.directory, "ovnsb_db.sock");
  }

  /** A database that is new when its file is not there. */
  async startDatabase(which: "nb" | "sb"): Promise<void> {
    const file = join(this.directory, `ovn${which}.db`);
    const socket = which === "nb" ? this.northbound : this.southbound;
    const isNew = !existsSync(file);
    if (isNew) await this.#mustRun("ovsdb-tool", ["create", file, join(SCHEMAS, `ovn-${which}.ovsschema`)]);
    rmSync(socket, { force: true });
    this.#spawn(which, "ovsdb-server", [
      file,
      `--remote=punix:${socket}`,
      `--unixctl=${join(this.directory, `ovn${which}.ctl`)}`,
    ]);
    await untilListening(socket);
    if (isNew) await (which === "nb" ? this.nbctl("--no-wait", "init") : this.sbctl("init"));
  }

  async endDatabase(which: "nb" | "sb", { remove = false, signal = "SIGTERM" as NodeJS.Signals } = {}) {
    await this.#end(which, signal);
    if (remove) rmSync(join(this.directory, `ovn${which}.db`), { force: true });
  }

  startNorthd(): void {
    this.#spawn("northd", "ovn-northd", [
      `--ovnnb-db=unix:${this.northbound}`,
      `--ovnsb-db=unix:${this.southbound}`,
      `--unixctl=${join(this.directory, "northd.ctl")}`,
    ]);
  }

  /** Resolves with what ovn-nbctl prints. */
  nbctl(...args: readonly string[]): Promise<string> {
    return this.#mustRun("ovn-nbctl", [`--db=unix:${this.northbound}`, "--timeout=20", ...args]);
  }

  sbctl(...args: readonly string[]): Promise<string> {
    return this.#mustRun("ovn-sbctl", [`--db=unix:${this.southbound}`, "--timeout=20", ...args]);
  }

  /** Waits until every chassis has carried out what the northbound database says. */
  async settle(): Promise<void> {
    await this.nbctl("--wait=hv", "sync");
  }

  /** The rows that match. Maps are objects, sets are lists, unless of one. */
  async rows(table: string, ...conditions: readonly string[]): Promise<OvnRow[]> {
    const text = await this.nbctl("--format=json", "find", table, ...conditions);
    const { headings, data } = JSON.parse(text) as { headings: string[]; data: unknown[][] };
    return data.map((row) => Object.fromEntries(headings.map((name, i) => [name, plain(row[i])])));
  }

  async stop(): Promise<void> {
    for (const name of [...this.#processes.keys()]) await this.#end(name, "SIGTERM");
    rmSync(this.directory, { recursive: true, force: true });
  }

  #spawn(name: string, program: string, args: readonly string[]): void {
    const log = [`--log-file=${join(this.directory, `${name}.log`)}`, "-vconsole:off"];
    this.#processes.set(name, spawn(program, [...args, ...log], { env: this.#environment(), stdio: "ignore" }));
  }

  async #end(name: string, signal: NodeJS.Signals): Promise<void> {
    const child = this.#processes.get(name);
    this.#processes.delete(name);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }

  async #mustRun(command: string, args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await run(command, args, this.#environment());
    if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  #environment(): Record<string, string> {
    return { PATH, ...environmentOf(this.directory) };
  }
}

export interface ChassisOptions {
  readonly name: string;
  /** The network namespace that it runs in. */
  readonly namespace: string;
  readonly central: OvnCentral;
  readonly encapAddress?: string;
}

/** A node of an OVN: Open vSwitch with the userspace datapath, br-int and ovn-controller. */
export class OvnChassis {
  readonly ovs: Ovs;
  readonly #options: ChassisOptions;
  #controller: ChildProcess | null = null;

  private constructor(ovs: Ovs, options: ChassisOptions) {
    this.ovs = ovs;
    this.#options = options;
  }

  static async start(options: ChassisOptions): Promise<OvnChassis> {
    const { name, namespace, central, encapAddress = "127.0.0.1" } = options;
    const ovs = await Ovs.database();
    const chassis = new OvnChassis(ovs, options);
    // Veth guests leave their checksums to the switch, which does them only with this.
    await ovs.vsctl("--no-wait", "set", "Open_vSwitch", ".", "other_config:userspace-tso-enable=true");
    await ovs.startSwitch(namespace);
    const ids = {
      "system-id": name,
      hostname: name,
      "ovn-remote": `unix:${central.southbound}`,
      "ovn-encap-type": "geneve",
      "ovn-encap-ip": encapAddress,
      "ovn-bridge-datapath-type": "netdev",
      // Tunnels to nodes of other zones, of which it knows only the address.
      "ovn-is-interconn": "true",
    };
    const set = Object.entries(ids).map(([key, value]) => `external_ids:${key}=${JSON.stringify(value)}`);
    await ovs.vsctl("set", "Open_vSwitch", ".", ...set);
    const bridge = ["--may-exist", "add-br", "br-int", "--", "set", "bridge", "br-int"];
    await ovs.vsctl(...bridge, "datapath_type=netdev", "fail_mode=secure");
    chassis.startController();
    return chassis;
  }

  startController(): void {
    const { directory } = this.ovs;
    const command = ["netns", "exec", this.#options.namespace, "ovn-controller", `unix:${this.ovs.socket}`];
    const log = [`--log-file=${join(directory, "ovn-controller.log")}`, "-vconsole:off"];
    const env = { PATH, ...environmentOf(directory) };
    this.#controller = spawn("ip", [...command, ...log], { env, stdio: "ignore" });
  }

  async endController(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#controller;
    this.#controller = null;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
  }

  async stop(): Promise<void> {
    await this.endController();
    await this.ovs.stop();
  }
}

function environmentOf(directory: string): Record<string, string> {
  const kinds = ["RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR"];
  const names = ["OVS", "OVN"].flatMap((program) => kinds.map((kind) => `${program}_${kind}`));
  return Object.fromEntries(names.map((name) => [name, directory]));
}

function plain(value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  const [tag, content] = value as [string, unknown];
  if (tag === "map") return Object.fromEntries(content as [string, string][]);
  return tag === "set" ? (content as unknown[]).map(plain) : content;
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { namesOf } from "../../guests/kernel/names.ts";
import type { PortReport, WantedPort } from "../../guests/ports/wire.ts";
import { run } from "../harness/daemon.ts";
import { type GuestAnswer, type GuestPlace, macOf, NamespaceGuest } from "../harness/metadata/guest.ts";
import { closeAtBoot, leftOver, metadataNet, removeLeft } from "../harness/metadata/parts.ts";
import type { ProductProcess } from "../harness/product-process.ts";
import { until } from "../harness/wait.ts";
import { mustRun } from "../network/containers.ts";

/** What the metadata server was sent. */
interface Echo {
  readonly method: string;
  readonly url: string;
  /** As on the wire, one after the other: name, value, name, value. */
  readonly rawHeaders: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: number;
}

export interface EchoAnswer extends GuestAnswer {
  readonly echo: Echo;
}

let lastNumber = 0;

/** `holdfast metadata-net` between a daemon that says what the test wants and a metadata server that echoes. */
export class NetNode {
  readonly directory: string;
  readonly #servers = new Map<string, Server>();
  readonly #links = new Set<string>();
  readonly #namespaces = new Set<string>();
  readonly #args: readonly string[];
  /** Before the directories of the machine's programs; null: nothing is. */
  readonly #programs: string | null;
  /** The network namespace that is the node; null: the machine's own. */
  readonly space: string | null;
  readonly #pending = new Set<() => void>();
  /**
   * A process in the node's network namespace and in one mount namespace, where all that runs on the node sees the same
   * namespaces by name: as on a machine. null: the node is the machine.
   */
  #holder: ChildProcess | null = null;
  #ports: readonly WantedPort[] = [];
  #ovnNetworks: readonly string[] = [];
  #version = 1;
  #report: PortReport | null = null;
  #isRemoved = false;
  readonly #processes: ProductProcess[] = [];
  /** Requests that came to the metadata server. */
  echoes = 0;
  /** Those of them whose path begins with `/thief`. */
  thefts = 0;

  private constructor(args: readonly string[], space: string | null, programs: string | null) {
    this.space = space;
    this.#programs = programs;
    this.directory = mkdtempSync(join(tmpdir(), "holdfast-net-"));
    // haproxy's workers, which are nobody's friends, must come to the server's socket.
    chmodSync(this.directory, 0o711);
    // Loads of tests are no guest's boot.
    this.#args = args.includes("--rate-limit") ? args : ["--rate-limit", "0", ...args];
  }

  /**
   * `apart`: in a network namespace of its own, whose rules may be flushed. `programs`: a directory whose programs
   * metadata-net finds before those of the machine.
   */
  static async start(
    args: readonly string[] = [],
    { apart = false, programs = null }: { readonly apart?: boolean; readonly programs?: string | null } = {},
  ): Promise<NetNode> {
    const space = apart ? `hft-${process.pid}-${uniqueLink("node")}` : null;
    const node = new NetNode(args, space, programs);
    if (space !== null) {
      await mustRun("ip", ["netns", "add", space]);
      node.#namespaces.add(space);
      node.#holder = await holdNamespace(space);
    }
    await node.startDaemon();
    await node.startUpstream();
    node.startNet();
    return node;
  }

  /** Everything that every metadata-net of this node has printed. */
  get log(): string {
    return this.#processes.map(({ log }) => log).join("");
  }

  /** The latest metadata-net. */
  get process(): ProductProcess | null {
    return this.#processes.at(-1) ?? null;
  }

  get runDir(): string {
    return join(this.directory, "net");
  }

  get names() {
    return namesOf(this.runDir);
  }

  get report(): PortReport | null {
    return this.#report;
  }

  startNet(): void {
    this.#isRemoved = false;
    this.#processes.push(
      metadataNet({
        daemonSocket: join(this.directory, "d.sock"),
        metadataSocket: join(this.directory, "m.sock"),
        runDir: this.runDir,
        args: this.#args,
        within: this.#inside(this.#programs === null ? [] : ["env", `PATH=${this.#programs}:${process.env.PATH}`]),
      }),
    );
  }

  /** A command on the node. */
  run(command: string, args: readonly string[], input = "") {
    const [first, ...rest] = this.#inside([command, ...args]);
    return run(first as string, rest, {}, input);
  }

  async mustRun(command: string, args: readonly string[], input = "") {
    const answer = await this.run(command, args, input);
    if (answer.code !== 0) throw new Error(`${command} ${args.join(" ")}: ${answer.stderr}`);
    return answer;
  }

  #inside(words: readonly string[]): readonly string[] {
    const pid = this.#holder?.pid;
    return pid === undefined ? words : ["nsenter", "-t", String(pid), "-m", "-n", ...words];
  }

  async endNet(signal: NodeJS.Signals): Promise<void> {
    await this.process?.end(signal);
  }

  /** The daemon's long poll, as guests/ports/wire.ts has it. */
  async startDaemon(): Promise<void> {
    const server = createServer((request, answer) => {
      let body = "";
      request.on("data", (chunk: Buffer) => {
        body += chunk;
      });
      request.on("end", () => {
        const report = JSON.parse(body) as PortReport;
        this.#report = report;
        const send = () => {
          clearTimeout(timer);
          this.#pending.delete(send);
          const wanted = {
            version: String(this.#version),
            ports: this.#ports,
            ovnNetworks: this.#ovnNetworks,
          };
          answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(wanted));
        };
        const timer = setTimeout(send, report.waitMs);
        this.#pending.add(send);
        answer.on("close", () => {
          clearTimeout(timer);
          this.#pending.delete(send);
        });
        if (report.applied !== String(this.#version)) send();
      });
    });
    await this.#listen(server, "d.sock");
  }

  async startUpstream(): Promise<void> {
    const server = createServer((request, answer) => {
      this.echoes += 1;
      let bodyBytes = 0;
      request.on("data", (chunk: Buffer) => {
        bodyBytes += chunk.length;
      });
      request.on("end", () => {
        const { method, url, rawHeaders, headers } = request;
        if (url?.startsWith("/thief")) this.thefts += 1;
        answer.end(JSON.stringify({ method, url, rawHeaders, headers, bodyBytes }));
      });
    });
    server.keepAliveTimeout = 60_000;
    await this.#listen(server, "m.sock");
    chmodSync(join(this.directory, "m.sock"), 0o666);
  }

  /** The daemon goes away, with everything that waits at it. */
  stopDaemon(): Promise<void> {
    return this.#close("d.sock");
  }

  stopUpstream(): Promise<void> {
    return this.#close("m.sock");
  }

  /** Wants these ports and no others. */
  want(...ports: readonly WantedPort[]): void {
    this.#ports = ports;
    this.#version += 1;
    for (const send of [...this.#pending]) send();
  }

  /** Wants the pods of these networks of OVN-Kubernetes and of no others; resolves as `wanted` does. */
  serve(...networks: readonly string[]): Promise<Record<string, string>> {
    this.#ovnNetworks = networks;
    return this.wanted(...this.#ports);
  }

  /** Wants them, and waits until that was carried out. Resolves with the problems by interface: see `problems`. */
  async wanted(...ports: readonly WantedPort[]): Promise<Record<string, string>> {
    this.want(...ports);
    return this.applied();
  }

  async applied(): Promise<Record<string, string>> {
    const version = String(this.#version);
    await until(
      () => {
        if (this.process?.child.exitCode) throw new Error(`metadata-net ended: ${this.log}`);
        // On a busy machine a search takes longer than a change waits for it.
        const isSearched = !JSON.stringify(this.problems()).includes("being searched for");
        return this.#report?.applied === version && isSearched;
      },
      () => `version ${version} to be applied; log: ${this.log}`,
    );
    return this.problems();
  }

  /** As last reported: by container and interface, and by "node" what concerns all guests. Empty: all are served. */
  problems(): Record<string, string> {
    const { failed = [], problem = null } = this.#report ?? {};
    return Object.fromEntries([
      ...failed.map((one) => [`${one.containerId} ${one.interface}`, `${one.kind}: ${one.problem}`]),
      ...(problem === null ? [] : [["node", problem]]),
    ]);
  }

  async bridge(name?: string): Promise<string> {
    const bridge = name ?? uniqueLink("hfb");
    await this.mustRun("ip", ["link", "add", bridge, "type", "bridge"]);
    await this.mustRun("ip", ["link", "set", bridge, "up"]);
    if (this.space === null) this.#links.add(bridge);
    return bridge;
  }

  /** A guest as a plugin attaches it, at a bridge's port or none, with a link-local route and nothing else. */
  async guest(bridge: string | null, address: string): Promise<PortGuest> {
    const port = uniqueLink("hfg");
    const namespace = `hft-${process.pid}-${lastNumber}-net`;
    this.#namespaces.add(namespace);
    await mustRun("ip", ["netns", "add", namespace]);
    const joins = bridge === null ? "" : `master ${bridge}`;
    await this.mustRun(
      "ip",
      ["-batch", "-"],
      `link add ${port} type veth peer name eth0 netns ${namespace}\nlink set ${port} ${joins} up\n`,
    );
    await batch(
      [
        "link set lo up",
        "link set eth0 up",
        `address add ${address} dev eth0`,
        "route add 169.254.0.0/16 dev eth0 scope link",
      ],
      namespace,
    );
    const [bare] = address.split("/") as [string];
    return new PortGuest({ namespace, port, address: bare, mac: await macOf(namespace) });
  }

  /** A port of the bridge that leads out of the node; the far end is in a namespace of its own. */
  uplink(bridge: string): Promise<PortGuest> {
    return this.guest(bridge, "10.255.255.1/32");
  }

  async removeGuest(guest: PortGuest): Promise<void> {
    await this.run("ip", ["link", "delete", guest.port]);
    await run("ip", ["netns", "delete", guest.namespace]);
    this.#namespaces.delete(guest.namespace);
  }

  haproxyPids(): number[] {
    const path = join(this.runDir, "haproxy.cfg");
    return readProcesses()
      .filter(({ words }) => words.includes(path) && !words.includes("-c"))
      .map(({ pid }) => pid);
  }

  /** Everything of this node's metadata-net on the machine: nothing, when it has ended. */
  async left(): Promise<string[]> {
    return [...(await leftOver(this.runDir)), ...this.haproxyPids().map((pid) => `haproxy ${pid}`)];
  }

  /** What is in memory alone goes with a boot: the run directory, and all rules. Links and guests stay here. */
  async reboot(): Promise<void> {
    await this.endNet("SIGKILL");
    for (const pid of this.haproxyPids()) process.kill(pid, "SIGKILL");
    rmSync(this.runDir, { recursive: true });
    await this.mustRun("nft", ["flush", "ruleset"]);
    const { stdout } = await this.mustRun("ip", ["-4", "rule"]);
    for (const [, bridge] of stdout.matchAll(/iif (\S+) blackhole/g))
      await this.mustRun("ip", ["rule", "del", "pref", "0", "iif", bridge as string]);
  }

  /** What the shipped unit does before anything starts containers. */
  closeAtBoot(): Promise<void> {
    return closeAtBoot({ runDir: this.runDir, args: this.#args, within: this.#inside([]) });
  }

  /** Takes away what metadata-net leaves at its end. */
  async removeLeft(): Promise<void> {
    if (this.#isRemoved) return;
    this.#isRemoved = true;
    await removeLeft({ runDir: this.runDir, args: this.#args, within: this.#inside([]) });
  }

  /** Ends everything. Resolves with what metadata-net left behind. */
  async stop(): Promise<string[]> {
    await this.endNet("SIGTERM");
    await this.removeLeft();
    const left = await this.left();
    for (const pid of this.haproxyPids()) process.kill(pid, "SIGKILL");
    for (const name of [...this.#servers.keys()]) await this.#close(name);
    this.#holder?.kill("SIGKILL");
    for (const namespace of this.#namespaces) await run("ip", ["netns", "delete", namespace]);
    for (const link of this.#links) await run("ip", ["link", "delete", link]);
    rmSync(this.directory, { recursive: true, force: true });
    return left;
  }

  async #listen(server: Server, name: string): Promise<void> {
    this.#servers.set(name, server);
    rmSync(join(this.directory, name), { force: true });
    server.listen(join(this.directory, name));
    await once(server, "listening");
  }

  async #close(name: string): Promise<void> {
    const server = this.#servers.get(name) as Server;
    this.#servers.delete(name);
    const closed = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closed;
  }
}

/** A guest behind a link of a node, which no plugin has attached. */
export class PortGuest extends NamespaceGuest {
  readonly port: string;

  constructor({ port, ...place }: GuestPlace & { readonly port: string }) {
    super(place);
    this.port = port;
  }

  /** As the daemon wants it. */
  on(network: string, more: Partial<WantedPort> = {}): WantedPort {
    return {
      network,
      containerId: `container-${this.namespace}`,
      interface: "eth0",
      netns: `/run/netns/${this.namespace}`,
      addresses: [this.address],
      mac: null,
      ...more,
    };
  }

  /** The answer of the metadata server, which echoes. */
  override async ask(path: string, args: readonly string[] = []): Promise<EchoAnswer> {
    const answer = await super.ask(path, args);
    return { ...answer, echo: echoIn(answer) };
  }
}

function echoIn({ body }: GuestAnswer): Echo {
  const none: Echo = { method: "", url: "", rawHeaders: [], headers: {}, bodyBytes: 0 };
  return body.startsWith("{") ? (JSON.parse(body) as Echo) : none;
}

export async function batch(commands: readonly string[], namespace?: string): Promise<void> {
  const where = namespace === undefined ? [] : ["-n", namespace];
  const answer = await run("ip", [...where, "-batch", "-"], {}, `${commands.join("\n")}\n`);
  if (answer.code !== 0) throw new Error(`ip -batch: ${answer.stderr}\n${commands.join("\n")}`);
}

async function holdNamespace(space: string): Promise<ChildProcess> {
  const script = ["sh", "-c", "echo held; exec sleep infinity"];
  const holder = spawn("ip", ["netns", "exec", space, ...script], { stdio: ["ignore", "pipe", "inherit"] });
  await once(holder.stdout, "data");
  return holder;
}

function uniqueLink(prefix: string): string {
  lastNumber += 1;
  return `${prefix}${process.pid % 100_000}n${lastNumber}`;
}

function readProcesses(): { pid: number; words: string[] }[] {
  return readdirSync("/proc")
    .map(Number)
    .filter(Number.isInteger)
    .flatMap((pid) => {
      try {
        return [{ pid, words: readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0") }];
      } catch {
        return [];
      }
    });
}

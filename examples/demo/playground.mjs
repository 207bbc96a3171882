// What the demo plays on: a temporary state directory, a daemon, and containers that are network namespaces.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { accessSync, chmodSync, constants, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { leftovers } from "./leftovers.mjs";
import { say, sayOutput } from "./terminal.mjs";

const ROOT = join(import.meta.dirname, "../..");
const HOLDFAST = join(ROOT, "dist/bin/holdfast");
const BIN = join(ROOT, "dist/bin");
/** Processes whose log is shown where a step fails. */
const QUIET = ["--log-level", "warn"];
const CNI_DIRECTORIES = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
/** Far above what a start takes; only ends a demo that hangs. */
const START_LIMIT_MS = 30_000;
/** A TCP connection to each address: nobody listens there, and a refusal is the answer of whoever has the address. */
const REACH = `
  import { connect } from "node:net";
  const [end, ...addresses] = process.argv.slice(1);
  const answers = (host) => new Promise((resolve) => {
    const socket = connect({ host, port: 9, timeout: 1000 });
    const done = (is) => { socket.destroy(); resolve(is); };
    socket.once("connect", () => done(true)).once("timeout", () => done(false));
    socket.once("error", ({ code }) => done(code === "ECONNREFUSED"));
  });
  for (const address of addresses)
    while (!(await answers(address))) {
      // An IPv6 address answers only after duplicate address detection.
      if (Date.now() > end) { process.stderr.write(address + " does not answer"); process.exit(1); }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }`;
/** Until what was stopped has removed what it made. */
const STOP_LIMIT_MS = 20_000;

export class Playground {
  #directory = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  #configs;
  #spawn;
  #bridgeDirectory;
  #whyNotReal;
  #daemon = null;
  #daemonLog = "";
  /** `holdfast metadata` and `holdfast metadata-net`, in the order in which they are ended. */
  #metadata = [];
  #step = "(before the first step)";
  #containers = new Map();
  #isInterrupted = false;
  #isCleaningUp = false;

  /** `configs`: plugin configurations by a colour, of which `blue` is the one meant where none is named. */
  static async create(configs, spawn) {
    const playground = new Playground();
    playground.#spawn = spawn;
    playground.#configs = Object.fromEntries(
      Object.entries(configs).map(([colour, config]) => [
        colour,
        { ...config, bridge: `hfd${process.pid}${colour}`.slice(0, 15) },
      ]),
    );
    playground.#bridgeDirectory = CNI_DIRECTORIES.find((directory) => existsSync(join(directory, "bridge")));
    playground.#whyNotReal = await playground.#whatIsMissing();
    return playground;
  }

  describe() {
    return this.#whyNotReal === null
      ? `The real bridge plugin (${this.#bridgeDirectory}/bridge), and network namespaces as containers.`
      : `No network namespaces here: ${this.#whyNotReal}. Driving the plugin binary directly instead.`;
  }

  /** With namespaces and the bridge plugin, and not the plugin binary alone. */
  get real() {
    return this.#whyNotReal === null;
  }

  /** Why no metadata can be shown; null: it can. */
  async whyNoMetadata() {
    if (!this.real) return "its listeners need network namespaces and a bridge";
    const { code, stderr } = await this.#run("nft", ["list", "tables"]);
    if (code !== 0) return `nft cannot be used (${stderr.trim()})`;
    const haproxy = await this.#run("haproxy", ["-v"]);
    return haproxy.code === 0 ? null : "haproxy is not installed";
  }

  /** Removed at the end, with what is in it. */
  get directory() {
    return this.#directory;
  }

  step = async (title, act) => {
    this.#step = title;
    say();
    say(`==> ${title}`);
    await act();
  };

  fail(error) {
    say();
    if (this.#isInterrupted) {
      say("Interrupted.");
      process.exitCode = 130;
      return;
    }
    process.stdout.write(`FAILED in step "${this.#step}": ${error.message}\n`);
    process.stdout.write(this.#daemonLog === "" ? "" : `--- the daemon's log\n${this.#daemonLog}`);
    process.exitCode = 1;
  }

  /** Ends the step under way, so that everything is removed. */
  interrupt = () => {
    this.#isInterrupted = true;
  };

  async startDaemon() {
    const at = (name) => join(this.#directory, name);
    // Not what host-local keeps on this machine: no container of it is in the demo's networks, and only root may read
    // it.
    const directories = ["--state", at("state"), "--host-local-dirs", at("host-local")];
    const child = this.start("daemon", ...directories, "--socket", this.socket, ...QUIET);
    this.#daemon = child;
    const end = performance.now() + START_LIMIT_MS;
    for (;;) {
      const { code } = await this.#run(process.execPath, [HOLDFAST, "networks"]);
      if (code === 0) return;
      if (child.exitCode !== null) throw new Error(`the daemon ended with code ${child.exitCode}`);
      if (performance.now() > end) throw new Error("the daemon did not become reachable");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  startMetadata() {
    // haproxy is not root, and has to reach the server's socket in there.
    chmodSync(this.#directory, 0o711);
    const at = (name) => join(this.#directory, name);
    const both = ["--metadata-socket", at("metadata.sock"), "--metrics-address", "off", ...QUIET];
    this.#metadata = [
      this.start("metadata-net", ...both, "--socket", this.socket, "--run-dir", at("net")),
      this.start("metadata", ...both, "--identity-socket", at("identity.sock"), "--state", at("metadata")),
    ];
  }

  /** What a container gets at a path of http://169.254.169.254. */
  async fetch(container, path) {
    const url = `http://169.254.169.254${path}`;
    // The first listener and server of a machine may still be starting: a guest's cloud-init asks again as well.
    const script = `const end = Date.now() + ${START_LIMIT_MS};
      for (;;) {
        const answer = await fetch("${url}").catch(() => null);
        if (answer?.ok) { process.stdout.write(await answer.text()); break; }
        if (Date.now() > end) { process.stderr.write("no answer: " + answer?.status); process.exit(1); }
        await new Promise((resolve) => setTimeout(resolve, 100));
      }`;
    const args = ["netns", "exec", this.#namespace(container), process.execPath];
    const { code, stdout, stderr } = await this.#run("ip", [...args, "--input-type=module", "-e", script]);
    if (code !== 0) throw new Error(`${container} asks ${url}: ${stderr}`);
    const shown = stdout.trimEnd().replaceAll("\n", " ⏎ ");
    say(`  ${container} asks ${url}: ${shown.length > 60 ? `${shown.slice(0, 60)}…` : shown}`);
    return stdout;
  }

  /** Kills the daemon and starts it again; how long nobody was answered, in milliseconds. */
  async crashDaemon() {
    const killed = performance.now();
    const exited = once(this.#daemon, "exit");
    this.#daemon.kill("SIGKILL");
    await exited;
    await this.startDaemon();
    return performance.now() - killed;
  }

  /** One command of the command line; its output. */
  holdfast = async (...args) => {
    const { code, stdout, stderr } = await this.#run(process.execPath, [HOLDFAST, ...args]);
    if (code !== 0) throw new Error(`holdfast ${args.join(" ")} exited ${code}: ${stderr}${stdout}`);
    return stdout;
  };

  /** One command of the command line, shown as a person would see it. */
  show = async (...args) => {
    const shown = args.map((arg) => arg.replace(`${ROOT}/`, ""));
    say(`$ holdfast ${shown.join(" ")}`);
    sayOutput(await this.holdfast(...args));
  };

  /** Attaches a container; its addresses. */
  add = async (container, args = "", colour = "blue") => {
    await this.#createNamespace(container);
    const { code, stdout } = await this.#cni("ADD", container, args, colour);
    if (code !== 0) throw new Error(`ADD of ${container} exited ${code}: ${stdout}`);
    const ips = JSON.parse(stdout).ips.map((ip) => ip.address);
    say(`  ${container.padEnd(9)} ${ips.join("  ")}`);
    return ips;
  };

  /** An ADD that must be refused; the CNI error. The runtime's clean-up follows it, as it would. */
  async addRefused(container, args) {
    await this.#createNamespace(container);
    const { code, stdout } = await this.#cni("ADD", container, args);
    if (code === 0) throw new Error(`ADD of ${container} should have been refused: ${stdout}`);
    await this.del(container, args);
    return JSON.parse(stdout);
  }

  del = async (container, args = "", colour = "blue") => {
    const { code, stdout } = await this.#cni("DEL", container, args, colour);
    if (code !== 0) throw new Error(`DEL of ${container} exited ${code}: ${stdout}`);
    await this.#removeNamespace(container);
  };

  async reach(from, addresses) {
    if (!this.real) return;
    const node = ["netns", "exec", this.#namespace(from), process.execPath, "--input-type=module"];
    const end = String(Date.now() + START_LIMIT_MS);
    const { code, stderr } = await this.#run("ip", [...node, "-e", REACH, end, ...addresses]);
    if (code !== 0) throw new Error(`${from} cannot reach all of ${addresses.join(", ")}: ${stderr}`);
    for (const address of addresses) say(`  ${from} reaches ${address}`);
  }

  /** Removes everything, also after a failure; what is left all the same. */
  async cleanUp() {
    this.#isCleaningUp = true;
    for (const child of [...this.#metadata, this.#daemon]) {
      if (child?.exitCode !== null || child.signalCode !== null) continue;
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      const impatience = setTimeout(() => child.kill("SIGKILL"), STOP_LIMIT_MS);
      await exited;
      clearTimeout(impatience);
    }
    for (const container of [...this.#containers.keys()]) await this.#removeNamespace(container);
    // Its end leaves rules that keep guests from others who answer.
    const left = [HOLDFAST, "metadata-net", "--remove", "--run-dir", join(this.#directory, "net")];
    if (this.#metadata.length > 0) await this.#run(process.execPath, left);
    if (this.real) {
      for (const { bridge } of Object.values(this.#configs)) await this.#run("ip", ["link", "delete", bridge]);
    }
    rmSync(this.#directory, { recursive: true, force: true });
    const lines = async (command, ...args) => (await this.#run(command, args)).stdout.split("\n");
    return leftovers(this.#directory, [`hfdemo-${process.pid}-`, `hfd${process.pid}`], lines);
  }

  /** A process of holdfast. */
  start(...args) {
    const command = [HOLDFAST, ...args];
    // In a group of its own: an interrupted demo still needs it, to remove what was made.
    const options = { stdio: ["ignore", "pipe", "pipe"], detached: true };
    const child = this.#spawn(process.execPath, command, options);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        this.#daemonLog += chunk;
      });
    }
    return child;
  }

  /** The daemon's. */
  get socket() {
    return join(this.#directory, "holdfast.sock");
  }

  #namespace(container) {
    return `hfdemo-${process.pid}-${container}`;
  }

  async #createNamespace(container) {
    const name = this.#namespace(container);
    if (this.#whyNotReal === null) {
      const { code, stderr } = await this.#run("ip", ["netns", "add", name]);
      if (code !== 0) throw new Error(`ip netns add ${name}: ${stderr}`);
    }
    this.#containers.set(container, name);
  }

  async #removeNamespace(container) {
    if (this.#whyNotReal === null) await this.#run("ip", ["netns", "delete", this.#namespace(container)]);
    this.#containers.delete(container);
  }

  #cni(verb, container, args, colour = "blue") {
    const { real } = this;
    const plugin = real ? join(this.#bridgeDirectory, "bridge") : join(BIN, "holdfast-ipam");
    const env = {
      CNI_COMMAND: verb,
      CNI_CONTAINERID: container,
      CNI_NETNS: `/var/run/netns/${this.#namespace(container)}`,
      CNI_IFNAME: "eth0",
      CNI_PATH: [BIN, ...(real ? [this.#bridgeDirectory] : [])].join(delimiter),
      ...(args === "" ? {} : { CNI_ARGS: args }),
    };
    return this.#run(plugin, [], env, JSON.stringify(this.#configs[colour]));
  }

  #run(command, args, env = {}, stdin = "") {
    if (this.#isInterrupted && !this.#isCleaningUp) throw new Error("interrupted");
    const settings = {
      HOLDFAST_SOCKET: this.socket,
      HOLDFAST_SPOOL: join(this.#directory, "state/spool"),
      NO_COLOR: "1",
    };
    const path = `${process.env.PATH}:/usr/sbin:/sbin`;
    return new Promise((resolve) => {
      const options = { env: { ...process.env, PATH: path, ...settings, ...env } };
      const child = execFile(command, args, options, (error, stdout, stderr) => {
        resolve({
          code: error === null ? 0 : (child.exitCode ?? -1),
          stdout,
          stderr: stderr || String(error?.message ?? ""),
        });
      });
      child.stdin?.on("error", () => {});
      child.stdin?.end(stdin);
    });
  }

  async #whatIsMissing() {
    if (process.getuid() !== 0) return "this needs root";
    if (this.#bridgeDirectory === undefined) return "the bridge plugin is not installed (containernetworking-plugins)";
    try {
      accessSync(join(this.#bridgeDirectory, "bridge"), constants.X_OK);
    } catch {
      return `${this.#bridgeDirectory}/bridge cannot be run`;
    }
    const name = this.#namespace("probe");
    const made = await this.#run("ip", ["netns", "add", name]);
    const used = made.code === 0 ? await this.#run("ip", ["netns", "exec", name, "true"]) : made;
    await this.#run("ip", ["netns", "delete", name]);
    return used.code === 0 ? null : `network namespaces cannot be used (${used.stderr.trim()})`;
  }
}

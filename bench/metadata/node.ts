import { chmodSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { namesOf } from "../../guests/kernel/names.ts";
import { run, TestDaemon } from "../../test/harness/daemon.ts";
import { type GuestPlace, macOf, NamespaceGuest } from "../../test/harness/metadata/guest.ts";
import { removeLeft } from "../../test/harness/metadata/parts.ts";
import { listening } from "../../test/harness/metadata/server.ts";
import { ProductProcess } from "../../test/harness/product-process.ts";
import { until } from "../../test/harness/wait.ts";
import { Containers } from "../../test/network/containers.ts";

/** As the systemd unit and the DaemonSet start metadata-net. */
const AS_SHIPPED = ["env", "NODE_OPTIONS=--max-semi-space-size=2 --jitless", "MALLOC_ARENA_MAX=1"];

type Config = Readonly<Record<string, unknown>>;

/** Of guests that are attached without a plugin. */
const ADDS_IN_FLIGHT = 4;

/** A daemon with everything that answers guests on a node, and guests on real bridges. Needs root. */
export class BenchNode {
  readonly daemon: TestDaemon;
  readonly containers: Containers;
  /** Where metadata-net keeps what it generates. */
  readonly runDir: string;
  readonly #namespaces: string[] = [];
  #server: ProductProcess | null = null;
  #net: ProductProcess | null = null;

  private constructor(daemon: TestDaemon) {
    this.daemon = daemon;
    this.runDir = join(daemon.directory, "net");
    this.containers = new Containers(daemon);
  }

  /** Runs work with a node, of which nothing is left. */
  static async with<T>(work: (node: BenchNode) => Promise<T>): Promise<T> {
    const node = await BenchNode.#start();
    try {
      return await work(node);
    } finally {
      await node.stop();
    }
  }

  static async #start(): Promise<BenchNode> {
    const node = new BenchNode(await TestDaemon.start());
    try {
      // haproxy is not root, and has to reach the server's socket in there.
      chmodSync(node.daemon.directory, 0o711);
      const sockets = ["--identity-socket", join(node.daemon.directory, "identity.sock"), ...node.#metadataSocket];
      const own = ["--state", join(node.daemon.directory, "metadata"), "--metrics-address", "off"];
      node.#server = new ProductProcess(["metadata", ...sockets, ...own]);
      await listening(node.#server);
      await node.startNet();
      return node;
    } catch (error) {
      await node.stop();
      throw error;
    }
  }

  get #metadataSocket(): readonly string[] {
    return ["--metadata-socket", join(this.daemon.directory, "metadata.sock")];
  }

  get log(): string {
    return `${this.#server?.log ?? ""}${this.#net?.log ?? ""}`;
  }

  /** PID of metadata-net. */
  get netPid(): number | undefined {
    return this.#net?.child.pid;
  }

  /** Starts metadata-net. */
  async startNet(): Promise<void> {
    const own = ["--socket", this.daemon.socket, "--run-dir", this.runDir, "--state", `${this.runDir}-state`];
    // A client that measures asks more often than any guest.
    const more = ["--metrics-address", "127.0.0.1:0", "--rate-limit", "0"];
    const args = ["metadata-net", ...own, ...this.#metadataSocket, ...more];
    const net = new ProductProcess(args, AS_SHIPPED);
    this.#net = net;
    await net.until(() => this.#netMetrics() !== null, "started");
  }

  async endNet(signal?: NodeJS.Signals): Promise<void> {
    await this.#net?.end(signal);
  }

  /** metadata-net has carried out everything that is wanted. */
  async isReady(): Promise<boolean> {
    const answer = await fetch(`${this.#netMetrics()}/readyz`).catch(() => null);
    return answer?.status === 200;
  }

  /** Name of its nft tables, whatever their family. */
  get table(): string {
    return namesOf(this.runDir).table;
  }

  /** The namespace that haproxy listens in. */
  get listener(): string {
    const text = readFileSync(join(this.runDir, "haproxy.cfg"), "utf8");
    return /namespace (\S+)/.exec(text)?.[1] ?? "";
  }

  /** A network on a bridge of its own. */
  network(name: string, subnets: string): Config {
    return {
      cniVersion: "1.0.0",
      name,
      type: "bridge",
      bridge: this.containers.link("hfb"),
      allowPersistentIPs: true,
      ipam: { type: "holdfast-ipam", subnets, metadata: true },
    };
  }

  /** A VM with a claim, attached by the real bridge plugin. */
  async vm(name: string, config: Config): Promise<NamespaceGuest> {
    const network = String(config.name);
    await this.#claim(`${name}.${network}`, network, name);
    const container = `${name}-${network}`;
    const namespace = await this.containers.create(container);
    const args = `IgnoreUnknown=1;IPAM_CLAIM=default/${name}.${network}`;
    const added = await this.containers.cni("ADD", container, namespace, config, args);
    if (added.code !== 0) throw new Error(`ADD of ${container}: ${added.stdout}`);
    return new NamespaceGuest({ namespace, address: addressOf(added.json()), mac: await macOf(namespace) });
  }

  /**
   * Guests on a bridge, with an interface and an ADD each, but without the bridge plugin, which is slow for hundreds.
   */
  async many(count: number, config: Config): Promise<{ guests: GuestPlace[]; addMs: number[] }> {
    const bridge = String(config.bridge);
    if ((await run("ip", ["link", "show", bridge])).code !== 0)
      await batch([`link add ${bridge} type bridge`, `link set ${bridge} up`]);
    const guests: GuestPlace[] = [];
    const addMs: number[] = [];
    const names = Array.from({ length: count }, () => this.#nextName());
    await batch(
      names.flatMap((name) => [
        `netns add ${name}`,
        `link add ${name} type veth peer name eth0 netns ${name}`,
        // Hundreds of guests that look for neighbours by IPv6 on one bridge would be all that is measured.
        `link set ${name} addrgenmode none master ${bridge} up`,
      ]),
    );
    const rest = names.values();
    const attach = async () => {
      for (const name of rest) {
        const netns = `/var/run/netns/${name}`;
        const startMs = performance.now();
        const added = await this.daemon.cni("ADD", name, { config, netns });
        addMs.push(performance.now() - startMs);
        if (added.code !== 0) throw new Error(`ADD of ${name}: ${added.stdout}`);
        const address = addressOf(added.json());
        const up = ["link set eth0 addrgenmode none up", "route add default dev eth0"];
        await batch([`addr add ${address}/16 dev eth0`, ...up], name);
        guests.push({ namespace: name, address, mac: "" });
      }
    };
    await Promise.all(Array.from({ length: Math.min(count, ADDS_IN_FLIGHT) }, attach));
    return { guests, addMs };
  }

  /** Of a namespace, a container in it, and the link to it, which goes with the namespace. */
  #nextName(): string {
    const name = `hfw${this.daemon.process.pid}n${this.#namespaces.length}`;
    this.#namespaces.push(name);
    return name;
  }

  async untilServed(guest: NamespaceGuest): Promise<void> {
    await until(
      async () => (await guest.ask("/openstack")).status === 200,
      () => `metadata for ${guest.namespace}; log: ${this.log}`,
    );
  }

  async stop(): Promise<void> {
    if (this.#namespaces.length > 0) await batch(this.#namespaces.map((name) => `netns delete ${name}`));
    await this.containers.remove();
    await this.#net?.end();
    await removeLeft({ runDir: this.runDir, args: [] });
    await this.#server?.end();
    await this.daemon.stop();
    rmSync(this.daemon.directory, { recursive: true, force: true });
  }

  #netMetrics(): string | null {
    const port = /"metrics":\{[^}]*"port":(\d+)/.exec(this.#net?.log ?? "")?.[1];
    return port === undefined ? null : `http://127.0.0.1:${port}`;
  }

  /** A VM's claim, as KubeVirt's IPAM extension makes it. */
  async #claim(name: string, network: string, vm: string): Promise<void> {
    const ownerReferences = [{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: vm, uid: `uid-of-${vm}` }];
    const answer = await this.daemon.post("/v1/apply", {
      objects: [
        {
          apiVersion: "k8s.cni.cncf.io/v1alpha1",
          kind: "IPAMClaim",
          metadata: { name, namespace: "default", ownerReferences },
          spec: { network, interface: "" },
        },
      ],
    });
    if (answer.body.includes('"error"')) throw new Error(answer.body);
  }
}

function addressOf(result: { ips: readonly { address: string }[] }): string {
  return result.ips[0]?.address.split("/")[0] ?? "";
}

/** One process for many commands of ip. */
async function batch(lines: readonly string[], namespace?: string): Promise<void> {
  const where = namespace === undefined ? [] : ["-n", namespace];
  const { code, stderr } = await run("ip", [...where, "-batch", "-"], {}, `${lines.join("\n")}\n`);
  if (code !== 0) throw new Error(`ip ${lines.join("; ")}: ${stderr}`);
}

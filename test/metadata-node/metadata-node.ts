import { rmSync } from "node:fs";
import { expect } from "vitest";
import { run, TestDaemon } from "../harness/daemon.ts";
import { type GuestPlace, macOf, NamespaceGuest } from "../harness/metadata/guest.ts";
import { MetadataParts, type MetadataPartsOptions } from "../harness/metadata/parts.ts";
import { until } from "../harness/wait.ts";
import { Containers, mustRun } from "../network/containers.ts";

/** An ADD is answered when its guest is served, and not because a busy machine took its time. */
const PATIENT = ["--metadata-wait-ms", "30000", "--add-deadline-ms", "50000"];

type Config = Readonly<Record<string, unknown>>;

/** A guest that the real bridge plugin has attached. */
export class AttachedGuest extends NamespaceGuest {
  readonly container: string;
  readonly config: Config;
  /** CNI_ARGS of its ADD. */
  readonly args: string;

  constructor(made: GuestPlace & Pick<AttachedGuest, "container" | "config" | "args">) {
    super(made);
    this.container = made.container;
    this.config = made.config;
    this.args = made.args;
  }
}

/** A standalone node with everything that answers guests, and guests on real bridges. */
export class MetadataNode {
  readonly daemon: TestDaemon;
  readonly metadata: MetadataParts;
  readonly containers: Containers;

  private constructor(daemon: TestDaemon, metadata: MetadataParts) {
    this.daemon = daemon;
    this.metadata = metadata;
    this.containers = new Containers(daemon);
  }

  static async start(
    options: MetadataPartsOptions & { readonly daemonArgs?: readonly string[] } = {},
  ): Promise<MetadataNode> {
    const daemon = await TestDaemon.start({ args: [...PATIENT, ...(options.daemonArgs ?? [])] });
    try {
      return new MetadataNode(daemon, await MetadataParts.start(daemon, options));
    } catch (error) {
      await daemon.stop();
      throw error;
    }
  }

  /** A network on a bridge of its own. */
  network(name: string, ipam: object = {}, plugin: object = {}): Config {
    return {
      cniVersion: "1.0.0",
      name,
      type: "bridge",
      bridge: this.containers.link("hfb"),
      allowPersistentIPs: true,
      ...plugin,
      ipam: { type: "holdfast-ipam", subnets: "10.30.0.0/24", metadata: true, ...ipam },
    };
  }

  /** A VM's claim, as KubeVirt's IPAM extension makes it. */
  async claim(name: string, network: string, vmUid: string): Promise<void> {
    const [vm] = name.split(".") as [string];
    const answer = await this.daemon.post("/v1/apply", {
      objects: [
        {
          apiVersion: "k8s.cni.cncf.io/v1alpha1",
          kind: "IPAMClaim",
          metadata: {
            name,
            namespace: "default",
            ownerReferences: [{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: vm, uid: vmUid }],
          },
          spec: { network, interface: "" },
        },
      ],
    });
    expect(answer.body).not.toContain('"error"');
  }

  async guest(container: string, config: Config, args = ""): Promise<AttachedGuest> {
    const namespace = await this.containers.create(container);
    const added = await this.containers.cni("ADD", container, namespace, config, args);
    expect(added.code, added.stdout).toBe(0);
    const address = added.json().ips[0].address.split("/")[0] as string;
    return new AttachedGuest({ namespace, container, address, mac: await macOf(namespace), config, args });
  }

  /** A guest as a VM with a claim; its UUID is the VM's UID. */
  async vm(name: string, config: Config, uid: string, more = ""): Promise<AttachedGuest> {
    const network = String(config.name);
    const claim = `${name}.${network}`;
    await this.claim(claim, network, uid);
    return this.guest(`${name}-${network}`, config, `IgnoreUnknown=1;IPAM_CLAIM=default/${claim}${more}`);
  }

  async end(guest: AttachedGuest): Promise<void> {
    const done = await this.containers.cni("DEL", guest.container, guest.namespace, guest.config, guest.args);
    expect(done.code, done.stdout).toBe(0);
    await this.containers.destroy(guest.namespace);
  }

  /** Only a link-local route and the guest's own subnet: no route of the plugin's is used. */
  async onlyLinkLocalRoute({ namespace }: NamespaceGuest): Promise<void> {
    await run("ip", ["-n", namespace, "route", "delete", "169.254.169.254/32"]);
    await run("ip", ["-n", namespace, "route", "delete", "default"]);
    await mustRun("ip", ["-n", namespace, "route", "replace", "169.254.0.0/16", "dev", "eth0", "scope", "link"]);
  }

  /** Waits until the guest has an IPv6 address of its link that is no longer being tried. */
  async untilIpv6({ namespace }: NamespaceGuest): Promise<void> {
    await until(async () => {
      const { stdout } = await run("ip", ["-n", namespace, "-6", "address", "show", "dev", "eth0"]);
      return stdout.includes("fe80:") && !stdout.includes("tentative");
    }, "the guest's own IPv6 address");
  }

  /** Waits until the guest is answered. */
  async untilServed(guest: AttachedGuest): Promise<void> {
    await until(
      async () => (await guest.ask("/openstack")).status === 200,
      () => `metadata for ${guest.container}; log: ${this.metadata.log}`,
    );
  }

  async stop(): Promise<void> {
    await this.containers.remove();
    await this.metadata.stop();
    await this.daemon.stop();
    rmSync(this.daemon.directory, { recursive: true, force: true });
  }
}

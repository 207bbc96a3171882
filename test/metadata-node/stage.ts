import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { run, TestDaemon, until } from "../harness/daemon.ts";
import { ask, MetadataNode, type MetadataNodeOptions } from "../harness/metadata-node.ts";
import { Containers, mustRun } from "../network/containers.ts";

/** A guest: a namespace behind the real bridge plugin. */
export interface Guest {
  readonly namespace: string;
  readonly container: string;
  readonly address: string;
  readonly mac: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly args: string;
}

/** A standalone node with everything that answers guests, and guests on real bridges. */
export class Stage {
  readonly daemon: TestDaemon;
  readonly metadata: MetadataNode;
  readonly containers: Containers;

  private constructor(daemon: TestDaemon, metadata: MetadataNode) {
    this.daemon = daemon;
    this.metadata = metadata;
    this.containers = new Containers(daemon);
  }

  static async start(options: MetadataNodeOptions & { daemonArgs?: readonly string[] } = {}): Promise<Stage> {
    const daemon = await TestDaemon.start({ args: options.daemonArgs ?? [] });
    try {
      return new Stage(daemon, await MetadataNode.start(daemon, options));
    } catch (error) {
      await daemon.stop();
      throw error;
    }
  }

  /** A network on a bridge of its own. */
  network(name: string, ipam: object = {}, plugin: object = {}): Readonly<Record<string, unknown>> {
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

  async guest(container: string, config: Guest["config"], args = ""): Promise<Guest> {
    const namespace = await this.containers.create(container);
    const added = await this.containers.cni("ADD", container, namespace, config, args);
    expect(added.code, added.stdout).toBe(0);
    const address = added.json().ips[0].address.split("/")[0] as string;
    const { stdout } = await mustRun("ip", ["-n", namespace, "-json", "link", "show", "dev", "eth0"]);
    const mac = (JSON.parse(stdout) as { address: string }[])[0]?.address ?? "";
    return { namespace, container, address, mac, config, args };
  }

  /** A guest as a VM with a claim; its UUID is the VM's UID. */
  async vm(name: string, config: Guest["config"], uid: string, more = ""): Promise<Guest> {
    const network = String(config.name);
    const claim = `${name}.${network}`;
    await this.claim(claim, network, uid);
    return this.guest(`${name}-${network}`, config, `IgnoreUnknown=1;IPAM_CLAIM=default/${claim}${more}`);
  }

  async end(guest: Guest): Promise<void> {
    const done = await this.containers.cni("DEL", guest.container, guest.namespace, guest.config, guest.args);
    expect(done.code, done.stdout).toBe(0);
    await this.containers.destroy(guest.namespace);
  }

  /** Only a link-local route and the guest's own subnet: no route of the plugin's is used. */
  async onlyLinkLocalRoute({ namespace }: Guest): Promise<void> {
    await run("ip", ["-n", namespace, "route", "delete", "169.254.169.254/32"]);
    await run("ip", ["-n", namespace, "route", "delete", "default"]);
    await mustRun("ip", [
      "-n",
      namespace,
      "route",
      "replace",
      "169.254.0.0/16",
      "dev",
      "eth0",
      "scope",
      "link",
    ]);
  }

  /** Waits until the guest is answered. */
  async untilServed(guest: Guest): Promise<void> {
    await until(
      async () => (await ask(guest.namespace, "/openstack")).status === 200,
      `metadata for ${guest.container}; log: ${this.metadata.log}`,
    );
  }

  async stop(): Promise<void> {
    await this.containers.remove();
    await this.metadata.stop();
    await this.daemon.stop();
    rmSync(join(this.daemon.folder), { recursive: true, force: true });
  }
}

/** Links, namespaces and tables of the machine that metadata-net made for this stage: to see that nothing is left. */
export async function leftOver(before: readonly string[]): Promise<string[]> {
  return (await madeByMetadataNet()).filter((name) => !before.includes(name));
}

export async function madeByMetadataNet(): Promise<string[]> {
  const [spaces, links, tables] = await Promise.all([
    run("ip", ["netns", "list"]),
    run("ip", ["-o", "link", "show"]),
    run("nft", ["list", "tables"]),
  ]);
  const words = `${spaces.stdout}\n${links.stdout}\n${tables.stdout}`.split(/[\s:@]+/);
  return [...new Set(words.filter((word) => /^(holdfast-md|hfm[0-9a-f]|holdfast_m)/.test(word)))].sort();
}

import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { Machine, whyNoMachine } from "../harness/machine.ts";
import { preparePodman } from "../harness/machine-parts.ts";
import { skippedFor } from "../harness/needs.ts";
import { until } from "../harness/wait.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { podOwner } from "../harness/world/objects.ts";
import { World } from "../harness/world/world.ts";
import { byName, kustomized } from "./kustomize.ts";
import { PodByPodman } from "./pod-by-podman.ts";

/** The images of a release: OCI layouts, made without a container engine. */

const ROOT = join(import.meta.dirname, "../..");
const IMAGE = "registry.example/holdfast:test";
const reason = skippedFor(process.getuid?.() === 0 ? null : "needs root: it changes the root directory of a process");

const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
let directory: string;
beforeAll(async () => {
  // In the project, which the machine sees.
  mkdirSync(join(ROOT, "build"), { recursive: true });
  directory = mkdtempSync(join(ROOT, "build/image-"));
  await makeImages("x64 arm64", "out");
}, 600_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function makeImages(architectures: string, out: string): Promise<void> {
  const words = ["--only", "image", "--architectures", architectures, "--image", IMAGE, join(directory, out)];
  const { code, stderr } = await run(process.execPath, [join(ROOT, "tools/release.mjs"), ...words]);
  if (code !== 0) throw new Error(stderr);
}

/** Listens on a unix socket, and passes on what comes to a port of this machine. */
async function forwardedTo(url: string, path: string): Promise<Server> {
  const { hostname, port } = new URL(url);
  const server = createServer((one) => {
    const other = connect(Number(port), hostname);
    one.pipe(other).pipe(one);
    for (const each of [one, other]) each.on("error", () => {});
  });
  await once(server.listen(path), "listening");
  return server;
}

interface Platform {
  readonly digest: string;
  readonly platform: { readonly architecture: string; readonly os: string };
}

/** The OCI layout of an image file. */
class Layout {
  readonly at: string;

  private constructor(at: string) {
    this.at = at;
  }

  static async of(out: string, variant: string): Promise<Layout> {
    const at = mkdtempSync(join(directory, "layout-"));
    const file = join(directory, `${out}/holdfast-${version}-image${variant}.tar`);
    expect(await run("tar", ["-xf", file, "-C", at])).toMatchObject({ code: 0 });
    return new Layout(at);
  }

  /** The one entry of its index. */
  get index(): { readonly digest: string; readonly annotations: object } {
    return JSON.parse(readFileSync(join(this.at, "index.json"), "utf8")).manifests[0];
  }

  platforms(): readonly Platform[] {
    return this.json(this.index.digest).manifests;
  }

  blob(digest: string): Buffer {
    return readFileSync(join(this.at, "blobs", digest.replace(":", "/")));
  }

  json(digest: string) {
    return JSON.parse(this.blob(digest).toString());
  }

  /** Unpacks what an architecture has, and returns its layers' sums and sizes. */
  async unpack(architecture: string, root: string) {
    mkdirSync(root);
    const one = this.platforms().find(({ platform }) => platform.architecture === architecture) as Platform;
    const { config, layers } = this.json(one.digest);
    const { rootfs } = this.json(config.digest);
    for (const [at, { digest, size }] of layers.entries()) {
      expect(this.blob(digest).length).toBe(size);
      expect(`sha256:${createHash("sha256").update(this.blob(digest)).digest("hex")}`).toBe(digest);
      const path = join(this.at, "blobs", digest.replace(":", "/"));
      const plain = await run("bash", ["-c", `zcat ${path} | sha256sum | cut -d' ' -f1; tar -xzf ${path} -C ${root}`]);
      expect(`sha256:${plain.stdout.trim()}`).toBe(rootfs.diff_ids[at]);
    }
    return layers.reduce((sum: number, layer: { size: number }) => sum + layer.size, 0) as number;
  }
}

test.skipIf(reason !== null)(
  "a second build gives the same bytes, whatever is built beside it",
  async () => {
    await makeImages("x64", "again");
    for (const variant of ["", "-slim"]) {
      const [both, again] = [await Layout.of("out", variant), await Layout.of("again", variant)];
      expect(both.platforms()).toHaveLength(2);
      expect(again.platforms()).toEqual([both.platforms()[0]]);
    }
  },
  600_000,
);

test.skipIf(reason !== null)("what is for arm64 is that, and runs", async () => {
  const root = join(directory, "root-arm64");
  await (await Layout.of("out", "")).unpack("arm64", root);
  const programs = ["usr/sbin/haproxy", "usr/bin/dash", "usr/local/lib/holdfast/bin/holdfast-ipam"];
  for (const file of programs)
    expect((await run("readelf", ["-h", join(root, file)])).stdout, file).toMatch(/Machine: +AArch64/);
  // With the libraries of the image, and no others.
  const inside = (...words: string[]) => run("qemu-aarch64-static", ["-L", root, ...words]);
  const lib = join(root, "usr/local/lib/holdfast");
  expect(await inside(join(lib, "bin/node"), join(lib, "bin/holdfast"), "--version")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(version),
  });
  expect(await inside(join(root, "usr/sbin/haproxy"), "-v")).toMatchObject({ code: 0 });
});

describe.skipIf(reason !== null).each(["", "-slim"])("the image%s", (variant) => {
  let root: string;
  const inside = (...words: string[]) =>
    run("chroot", ["--userspec=65532:65532", root, ...words], { PATH: "/usr/bin:/usr/sbin" });

  beforeAll(async () => {
    root = join(directory, `root${variant}`);
    const layout = await Layout.of("out", variant);
    expect(layout.index.annotations).toEqual({
      "org.opencontainers.image.ref.name": `${IMAGE}${variant}`,
    });
    expect(layout.platforms().map(({ platform }) => platform)).toEqual([
      { architecture: "amd64", os: "linux" },
      { architecture: "arm64", os: "linux" },
    ]);
    const bytes = await layout.unpack("amd64", root);
    console.log(`image${variant}: ${(bytes / 1e6).toFixed(1)} MB compressed`);
  });

  test("runs as the user that it names, with nothing of this machine", async () => {
    expect(await inside("/usr/local/bin/holdfast", "--version")).toMatchObject({ code: 0, stderr: "" });
    const controller = await inside("/usr/local/bin/holdfast", "controller");
    expect(controller.stderr).toContain("no kubeconfig file is set and this is no pod");
    const read = await inside(
      "/usr/local/lib/holdfast/bin/node",
      "-e",
      'new (require("/usr/local/lib/holdfast/lib/better_sqlite3.node").Database)',
    );
    expect(read.stderr).not.toContain("cannot open shared object file");
  });

  test("has what the DaemonSet's init container runs", async () => {
    const script =
      "printf 'a=%s' 1 > /tmp/a && cp /usr/local/lib/holdfast/bin/holdfast-ipam /tmp/b && chmod 0755 /tmp/b && mv -f /tmp/b /tmp/c && cat /tmp/a";
    const { code, stdout, stderr } = await run("chroot", [root, "/bin/sh", "-euc", script], {
      PATH: "/usr/sbin:/usr/bin",
    });
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "a=1", stderr: "" });
  });

  test("has every library that a program or library of it is linked to", async () => {
    const list = `cd ${root} && find . -type f | while read -r file; do
      readelf -d "$file" 2>/dev/null | sed -n "s|.*(NEEDED).*\\[\\(.*\\)\\]|\\1 $file|p"; done; find . -name '*.so*' -printf 'has %f\\n'`;
    const lines = (await run("bash", ["-c", list])).stdout
      .trim()
      .split("\n")
      .map((line) => line.split(" ") as [string, string]);
    const has = new Set(lines.filter(([word]) => word === "has").map(([, name]) => name));
    const needs = lines.filter(([word]) => word !== "has");
    expect(needs.length).toBeGreaterThan(10);
    expect(needs.filter(([library]) => !has.has(library)).map((pair) => pair.join(" "))).toEqual([]);
  });

  test("has the listener's programs, or none of them", async () => {
    for (const words of [
      ["haproxy", "-v"],
      ["nft", "--version"],
      ["ovs-ofctl", "--version"],
      ["ethtool", "--version"],
      ["ip", "-V"],
      ["flock", "--version"],
      ["mount", "--version"],
      ["nsenter", "--version"],
      ["setpriv", "--version"],
      ["unshare", "--version"],
    ]) {
      const { code, stderr } = await inside(...words);
      expect(code, `${words[0]} ${stderr}`).toBe(variant === "" ? 0 : 127);
    }
  });
});

describe.skipIf(whyNoMachine() !== null)("podman runs", () => {
  const NETWORK = {
    cniVersion: "0.4.0",
    name: "blue",
    plugins: [
      {
        type: "bridge",
        bridge: "br-blue",
        isDefaultGateway: true,
        ipam: { type: "holdfast-ipam", subnets: "192.168.10.0/24", metadata: true },
      },
    ],
  };
  /** What podman, its networks, the kubelet and systemd write. */
  const OTHERS =
    /^\/(var\/(lib\/(containers|cni|kubelet|systemd)|log|tmp|cache)|run\/(containers|libpod|crun|netns|lock|log|systemd|udev))\//;
  let machine: Machine;
  let daemons: PodByPodman;
  let metadata: PodByPodman;

  /** A node of which only /var, /run, /opt/cni and /etc/cni can be written. */
  beforeAll(async () => {
    machine = await Machine.start();
    await preparePodman(machine);
    await machine.out(`podman load -q -i ${join(directory, `out/holdfast-${version}-image.tar`)}`);
    await machine.out(`mkdir -p /run/netns && mount --bind /run/netns /run/netns && mount --make-rshared /run/netns
      cat > /etc/cni/net.d/blue.conflist <<'END'
${JSON.stringify(NETWORK)}
END
      for path in /etc /etc/cni /opt /opt/cni /usr /root /srv; do mount --bind $path $path; done
      for path in /etc /opt /usr /root /srv; do mount -o remount,bind,ro $path; done`);
    const rendered = byName(await kustomized(".", ["metadata"], IMAGE));
    const pod = (name: string) => new PodByPodman(machine, rendered[`DaemonSet holdfast-system/${name}`] as KubeObject);
    [daemons, metadata] = [pod("holdfast-node"), pod("holdfast-metadata")];
  }, 600_000);
  afterAll(() => machine?.stop());

  const logs = async (name: string) => (await machine.sh(`podman logs ${name} 2>&1`)).stdout;
  const becomesReady = (pod: PodByPodman, name: string) =>
    until(() => pod.isReady(name), `readiness of ${name}`, 60_000).catch(async (error) => {
      throw new Error(`${error}\n${await logs(name)}`);
    });

  test.each(["/etc/holdfast", "/opt/holdfast", "/usr/lib/holdfast"])(
    "no pod with a directory %s on a node that is read-only but for /var, /run and CNI's directories",
    async (path) => {
      const pod = daemons.with({ name: "settings", hostPath: { path, type: "DirectoryOrCreate" } });
      await expect(pod.prepare()).rejects.toThrow(/Read-only file system/);
    },
  );

  test("the pods of the DaemonSets on that node, which write nothing but their volumes, and a container on a bridge is answered", async () => {
    await machine.out("touch /run/before");
    await daemons.prepare();
    await daemons.start("daemon");
    await becomesReady(daemons, "daemon");
    await metadata.prepare({ "holdfast-metadata": "openssl rand -hex 32 > keys" });
    await metadata.start("server");
    await metadata.start("listeners");
    // podman asks once, and until the daemon has heard of the listener no guest with metadata gets an address.
    const runs =
      "podman run -d --replace --cgroups=disabled --name web --network blue localhost/busybox /bin/sleep 100000";
    await until(async () => (await machine.sh(runs)).code === 0, "the container");
    expect(await machine.out("podman exec daemon holdfast list -o name")).toMatch(/^192\.168\.10\.\d+\/24\n$/);
    // Its interface is served within a moment.
    const guest = "ip netns exec $(basename /run/netns/netns-*)";
    const ask = `${guest} curl -sS -f -m 5 http://169.254.169.254/openstack/latest/meta_data.json`;
    const answered = async () => (await machine.sh(ask)).code === 0;
    await until(answered, "an answer", 60_000).catch(async (error) => {
      const there = await machine.sh(`${guest} ip route; podman ps -a; ls -la /run/netns`);
      throw new Error(`${error}\n${there.stdout}${there.stderr}\n${await logs("listeners")}`);
    });
    expect(JSON.parse(await machine.out(ask)).uuid).toMatch(/^[0-9a-f-]{36}$/);
    for (const name of ["server", "listeners"]) await becomesReady(metadata, name);
    await machine.out("podman exec daemon holdfast check");
    const find = "find /var /run /etc/cni /opt/cni ! -type d -cnewer /run/before";
    const found = (await machine.out(find)).trim().split("\n");
    const volumes = [...daemons.directories, ...metadata.directories].map((path) =>
      path.replace(/^\/var\/run\//, "/run/"),
    );
    expect(found).toContain("/opt/cni/bin/holdfast-ipam");
    expect(found.filter((path) => !(OTHERS.test(path) || volumes.some((one) => path.startsWith(`${one}/`))))).toEqual(
      [],
    );
  });

  test("the controller, and it releases what a pod had on a real API server", async () => {
    const world = await World.start({ api: "server" });
    const forwarding = await forwardedTo(world.cluster.server, join(directory, "api.sock"));
    try {
      const kubeconfig = join(directory, "kubeconfig");
      copyFileSync(world.cluster.kubeconfig("holdfast-controller"), kubeconfig);
      chmodSync(kubeconfig, 0o644);
      // The machine has no network: what it asks of the API server goes over a socket that it sees.
      const { port } = new URL(world.cluster.server);
      const forward = `require("node:net").createServer((one) => { const other = require("node:net").connect(process.argv[1]); one.pipe(other).pipe(one); for (const each of [one, other]) each.on("error", () => {}); }).listen(${port}, "127.0.0.1")`;
      await machine.out(
        `systemd-run -q --unit=forward ${process.execPath} -e '${forward}' ${join(directory, "api.sock")}`,
      );
      await machine.out(
        `podman run -d --cgroups=disabled --network host --name controller --user 65532:65532 --cap-drop all --read-only -v ${kubeconfig}:/kubeconfig:ro ${IMAGE} controller --kubeconfig /kubeconfig --sweep-interval-seconds 1 --sweep-grace-seconds 1`,
      );
      await world.importedNetwork("blue", { subnets: "10.1.0.0/24" });
      const pod = await world.kubevirt.createPod(NAMESPACE, "web", { node: "n1" });
      await world.allocate("blue", "10.1.0.5/24", podOwner(pod));
      await world.kubevirt.endPod(pod);
      await world.becomes("blue", "10.1.0.5/24", "Cooling");
    } catch (error) {
      throw new Error(`${error}\n${await logs("controller")}`);
    } finally {
      forwarding.close();
      await world.stop();
    }
  });

  test("every process ends when it is told to", async () => {
    for (const name of ["controller", "listeners", "server", "daemon"]) {
      const startMs = performance.now();
      await machine.out(`podman stop -t 20 ${name}`);
      expect(performance.now() - startMs, name).toBeLessThan(20_000);
      expect(await machine.out(`podman inspect -f '{{.State.ExitCode}}' ${name}`)).toBe("0\n");
    }
  });
});

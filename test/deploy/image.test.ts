import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { skippedFor } from "../harness/needs.ts";

/** The images of a release: OCI layouts, made without a container engine. */

const ROOT = join(import.meta.dirname, "../..");
const IMAGE = "registry.example/holdfast:test";
const reason = skippedFor(
  process.getuid?.() === 0 ? null : "needs root: it changes the root directory of a process",
);

let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "holdfast-image-"));
  const words = ["--only", "image", "--architectures", "x64", "--image", IMAGE, join(directory, "out")];
  const { code, stderr } = await run(process.execPath, [join(ROOT, "tools/release.mjs"), ...words]);
  if (code !== 0) throw new Error(stderr);
}, 600_000);
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe.skipIf(reason !== null).each(["", "-slim"])("the image%s", (variant) => {
  let layout: string;
  let root: string;
  const blob = (digest: string) => readFileSync(join(layout, "blobs", digest.replace(":", "/")));
  const json = (digest: string) => JSON.parse(blob(digest).toString());
  const inside = (...words: string[]) =>
    run("chroot", ["--userspec=65532:65532", root, ...words], { PATH: "/usr/bin:/usr/sbin" });

  beforeAll(async () => {
    [layout, root] = ["layout", "root"].map((name) => join(directory, `${name}${variant}`)) as [
      string,
      string,
    ];
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    const file = join(directory, `out/holdfast-${version}-image${variant}.tar`);
    expect(
      await run("bash", ["-c", `mkdir ${layout} ${root} && tar -xf ${file} -C ${layout}`]),
    ).toMatchObject({ code: 0 });
    const [index] = JSON.parse(readFileSync(join(layout, "index.json"), "utf8")).manifests;
    expect(index.annotations).toEqual({ "org.opencontainers.image.ref.name": `${IMAGE}${variant}` });
    const [manifest] = json(index.digest).manifests;
    expect(manifest.platform).toEqual({ architecture: "amd64", os: "linux" });
    const { config, layers } = json(manifest.digest);
    const { rootfs } = json(config.digest);
    for (const [at, { digest, size }] of layers.entries()) {
      expect(blob(digest).length).toBe(size);
      expect(`sha256:${createHash("sha256").update(blob(digest)).digest("hex")}`).toBe(digest);
      const path = join(layout, "blobs", digest.replace(":", "/"));
      const plain = await run("bash", [
        "-c",
        `zcat ${path} | sha256sum | cut -d' ' -f1; tar -xzf ${path} -C ${root}`,
      ]);
      expect(`sha256:${plain.stdout.trim()}`).toBe(rootfs.diff_ids[at]);
    }
    const bytes = layers.reduce((sum: number, one: { size: number }) => sum + one.size, 0);
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
    ]) {
      const { code, stderr } = await inside(...words);
      expect(code, `${words[0]} ${stderr}`).toBe(variant === "" ? 0 : 127);
    }
  });
});

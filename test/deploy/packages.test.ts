import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "../harness/daemon.ts";
import { debianRoot } from "../harness/debian-root.ts";
import { commandsInRow } from "../harness/documents.ts";
import { Machine, whyNoMachine } from "../harness/machine.ts";

/** What `make release` makes for nodes, installed on fresh systems as people do it. */

const ROOT = join(import.meta.dirname, "../..");
const reason = whyNoMachine();
const CONFIG = JSON.stringify({
  cniVersion: "1.0.0",
  name: "blue",
  type: "bridge",
  ipam: { type: "holdfast-ipam", subnets: "192.168.10.0/24" },
});

/** In the project, which the machines see. */
let out: string;
const fileOf = (ending: string): string => {
  const found = readdirSync(out).filter((name) => name.endsWith(ending));
  if (found.length !== 1) throw new Error(`${found.length} files end with ${ending} in ${out}`);
  return join(out, found[0] as string);
};

beforeAll(async () => {
  mkdirSync(join(ROOT, "build"), { recursive: true });
  out = mkdtempSync(join(ROOT, "build/packages-"));
  const { code, stderr } = await run(process.execPath, [
    join(ROOT, "tools/release.mjs"),
    "--only",
    "manifests packages",
    out,
  ]);
  if (code !== 0) throw new Error(stderr);
}, 600_000);
afterAll(() => rmSync(out, { recursive: true, force: true }));

/** The answer to an ADD of a container of its own, by the plugin binary alone. */
async function add(machine: Machine, name: string, plugin: string): Promise<string> {
  const environment = `CNI_COMMAND=ADD CNI_CONTAINERID=${name} CNI_NETNS=/run/netns/${name} CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin`;
  await machine.out(`ip netns list | grep -q '^${name}' || ip netns add ${name}`);
  return JSON.parse(await machine.out(`${environment} ${plugin} <<< '${CONFIG}'`)).ips[0].address;
}

test("every file has the sum that is listed, and none is missing", async () => {
  const names = readFileSync(join(out, "SHA256SUMS"), "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split("  ")[1]);
  expect(names).toEqual(
    readdirSync(out)
      .filter((name) => name !== "SHA256SUMS")
      .sort(),
  );
  expect(await run("bash", ["-c", `cd ${out} && sha256sum -c SHA256SUMS`])).toMatchObject({ code: 0 });
});

test("a second build of the same sources gives the same bytes", () => {
  const copy = mkdtempSync(join(ROOT, "build/again-"));
  try {
    const git = (...words: string[]) => execFileSync("git", words, { cwd: ROOT, encoding: "utf8" });
    const files = git("ls-files", "-co", "--exclude-standard");
    execFileSync("tar", ["-cf", join(copy, "sources.tar"), "-T", "-"], { cwd: ROOT, input: files });
    execFileSync("tar", ["-xf", "sources.tar"], { cwd: copy });
    // Links to links: the bundler names what it reads by where that really is.
    execFileSync("cp", ["-al", join(ROOT, "node_modules"), join(copy, "node_modules")]);
    execFileSync("node", ["tools/bundle.mjs"], { cwd: copy });
    const built = readdirSync(join(ROOT, "dist/lib"), { recursive: true, encoding: "utf8" });
    expect(built).toContain("ui/page.js");
    for (const name of built.filter((one) => one !== "ui"))
      expect(readFileSync(join(copy, "dist/lib", name)).equals(readFileSync(join(ROOT, "dist/lib", name))), name).toBe(
        true,
      );
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
});

/** Below a directory. */
function elfFilesIn(directory: string): string[] {
  const found = readdirSync(directory, { recursive: true, withFileTypes: true });
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).subarray(0, 4).toString("latin1") === "\x7fELF");
}

/** The newest version of a library's symbols that a file needs, such as "2.34" of GLIBC; null: none. */
async function newestNeeded(file: string, library: string): Promise<string | null> {
  const { code, stdout } = await run("readelf", ["-VW", file]);
  if (code !== 0) throw new Error(`readelf cannot read ${file}`);
  const versions = [...stdout.matchAll(new RegExp(`Name: ${library}_([0-9.]+)`, "g"))].map(([, one]) => one as string);
  return versions.sort((a, b) => a.localeCompare(b, "en", { numeric: true })).at(-1) ?? null;
}

describe("the C library that is needed", () => {
  /** libstdc++'s symbols, and the release of GCC, as Debian numbers it, that brought them. */
  const GCC_OF = { "3.4.29": "11" } as Readonly<Record<string, string>>;

  test.each(["amd64", "arm64"])("is the one that package, pages and build name, for %s", async (architecture) => {
    const tree = mkdtempSync(join(tmpdir(), "holdfast-elf-"));
    try {
      await run("tar", ["-xzf", fileOf(`-${architecture}.tar.gz`), "-C", tree]);
      await run("dpkg-deb", ["-e", fileOf(`_${architecture}.deb`), join(tree, "DEBIAN")]);
      await run("dpkg-deb", ["-x", fileOf(`_${architecture}.deb`), join(tree, "package")]);
      const files = elfFilesIn(tree);
      const newest = async (library: string) => {
        const needed = await Promise.all(files.map((file) => newestNeeded(file, library)));
        return needed
          .filter((one) => one !== null)
          .sort((a, b) => a.localeCompare(b, "en", { numeric: true }))
          .at(-1) as string;
      };
      // Node.js, the SQLite module and the plugin binary, in both.
      expect(files).toHaveLength(6);
      const glibc = await newest("GLIBC");
      const control = readFileSync(join(tree, "DEBIAN/control"), "utf8");
      expect(control).toContain(
        `Depends: libc6 (>= ${glibc}), libstdc++6 (>= ${GCC_OF[await newest("GLIBCXX")]}), libgcc-s1\n`,
      );
      for (const page of ["README.md", "Makefile", "docs/release.md", "docs/known-limits.md"]) {
        const named = [...readFileSync(join(ROOT, page), "utf8").matchAll(/glibc (\d+\.\d+)/g)].map(([, one]) => one);
        expect([page, ...new Set(named)]).toEqual([page, glibc]);
      }
      for (const plugin of files.filter((file) => file.endsWith("/holdfast-ipam")))
        expect(await newestNeeded(plugin, "GLIBC"), plugin).toBeNull();
    } finally {
      rmSync(tree, { recursive: true, force: true });
    }
  });
});

test("what is for arm64 is that, and runs", async () => {
  const tree = mkdtempSync(join(tmpdir(), "holdfast-arm64-"));
  try {
    await run("tar", ["-xzf", fileOf("-arm64.tar.gz"), "-C", tree]);
    const lib = join(tree, "usr/local/lib/holdfast");
    const plugin = join(tree, "opt/cni/bin/holdfast-ipam");
    for (const file of [plugin, join(lib, "bin/node"), join(lib, "lib/better_sqlite3.node")])
      expect((await run("readelf", ["-h", file])).stdout, file).toMatch(/Machine: +AArch64/);
    const emulator = ["-L", "/usr/aarch64-linux-gnu"];
    const version = await run("qemu-aarch64-static", [...emulator, plugin], { CNI_COMMAND: "VERSION" });
    expect(JSON.parse(version.stdout).supportedVersions).toContain("1.0.0");
    const holdfast = join(lib, "bin/holdfast");
    const asked = await run("qemu-aarch64-static", [...emulator, join(lib, "bin/node"), holdfast, "--version"]);
    expect(asked).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+/) });
    // The code of V8 is that of its own Node.
    const named = `process.stdout.write(String(new (require("node:vm").Script)(require("node:module").wrap(require("node:fs").readFileSync(process.argv[1],"utf8")),{filename:"daemon.cjs",columnOffset:-require("node:module").wrap("").lastIndexOf("\\n"),cachedData:(()=>{const all=require("node:fs").readFileSync(process.argv[1]+".cache");const size=require("node:fs").statSync(process.argv[1]).size;return all.subarray(size,size+(all.length-size)/2)})()}).cachedDataRejected))`;
    const taken = await run("qemu-aarch64-static", [
      ...emulator,
      join(lib, "bin/node"),
      "-e",
      named,
      join(lib, "lib/daemon.cjs"),
    ]);
    expect(taken.stdout).toBe("false");
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
});

describe.skipIf(reason !== null).each(["bookworm", "trixie"] as const)("on a fresh Debian, %s", (release) => {
  let machine: Machine;
  const installed = () =>
    machine.out(`DEBIAN_FRONTEND=noninteractive apt-get install -q -y ${fileOf("_amd64.deb")} 2>&1`);
  beforeAll(async () => {
    machine = await Machine.start({ root: await debianRoot(release) });
  }, 600_000);
  afterAll(() => machine?.stop());

  test("apt installs the package, and the first ADD is answered", async () => {
    const startMs = performance.now();
    await installed();
    expect((await machine.sh("systemctl is-active holdfast")).stdout).toBe("inactive\n");
    await machine.out("systemctl enable --now holdfast 2>&1");
    expect(await add(machine, "web", "/opt/cni/bin/holdfast-ipam")).toBe("192.168.10.1/24");
    console.log(
      `${release}: from apt install to the first answered ADD ${((performance.now() - startMs) / 1_000).toFixed(1)} s`,
    );
    expect(await add(machine, "db", "/usr/lib/cni/holdfast-ipam")).toBe("192.168.10.2/24");
    await machine.out("holdfast check");
    expect(await machine.out("holdfast doctor")).toMatch(/^ok +plugin to daemon/m);
    await machine.out("useradd -m -G holdfast alice");
    // The page is installed, and whoever has its URL comes in; as alice, who only reads.
    const visit = `const { port, hash } = new URL(process.argv[1]);
      fetch("http://127.0.0.1:" + port + "/api/v1/networks", { headers: { authorization: "Bearer " + hash.slice(3) } }).then(({ status }) => console.log(status))`;
    const page = `umask 077; setpriv --reuid alice --regid alice --init-groups holdfast ui --no-open > /tmp/url & ui=$!
      until test -s /tmp/url; do sleep 0.1; done
      /usr/lib/holdfast/bin/node -e '${visit}' "$(cat /tmp/url)"; kill $ui`;
    expect(await machine.out(page)).toBe("200\n");
    const asAlice = (words: string) => machine.sh(`su alice -c 'holdfast ${words}'`);
    expect((await asAlice("list -o name")).stdout).toBe("192.168.10.1/24\n192.168.10.2/24\n");
    expect(await asAlice("release 192.168.10.1 --network blue --force")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("is not served on the read-only socket"),
    });
    expect(await machine.out("dpkg --verify holdfast")).toBe("");
  });

  test("an upgrade restarts the daemon, and keeps settings and addresses", async () => {
    await machine.out("echo 'addDeadlineMs: 8000' >> /etc/holdfast/daemon.yaml");
    const pid = () => machine.out("systemctl show -p MainPID --value holdfast");
    const before = await pid();
    await machine.out(
      `dpkg-deb -R ${fileOf("_amd64.deb")} /tmp/next && sed -i 's/^Version: .*/Version: 99/' /tmp/next/DEBIAN/control && dpkg-deb -Znone --root-owner-group -b /tmp/next /tmp/next.deb`,
    );
    await machine.out("DEBIAN_FRONTEND=noninteractive apt-get install -q -y /tmp/next.deb 2>&1");
    expect(await pid()).not.toBe(before);
    expect(await machine.out("cat /etc/holdfast/daemon.yaml")).toContain("addDeadlineMs: 8000");
    expect(await add(machine, "web", "/opt/cni/bin/holdfast-ipam")).toBe("192.168.10.1/24");
    await machine.out("holdfast check");
  });

  test("removed and installed again it goes on with its ledger; purged it leaves nothing", async () => {
    await machine.out("apt-get remove -q -y holdfast 2>&1");
    expect((await machine.sh("command -v holdfast; systemctl is-active holdfast")).stdout).toBe("inactive\n");
    await machine.out("test -e /var/lib/holdfast/holdfast.db && test -e /etc/holdfast/daemon.yaml");
    await installed();
    await machine.out("systemctl enable --now holdfast 2>&1");
    expect(await add(machine, "late", "/opt/cni/bin/holdfast-ipam")).toBe("192.168.10.3/24");
    await machine.out("apt-get purge -q -y holdfast 2>&1");
    const left = await machine.sh(
      "ls -d /var/lib/holdfast* /etc/holdfast /usr/lib/holdfast /usr/lib/cni/holdfast-ipam /opt/cni/bin/holdfast-ipam /usr/lib/systemd/system/holdfast* 2>/dev/null",
    );
    expect(left.stdout).toBe("");
  });

  test("the tarball is unpacked into /, and that is all", async () => {
    await machine.out(`tar -C / --no-same-owner -xzf ${fileOf("-amd64.tar.gz")}`);
    await machine.out("systemd-sysusers && systemctl daemon-reload && systemctl enable --now holdfast 2>&1");
    expect(await add(machine, "tar", "/opt/cni/bin/holdfast-ipam")).toBe("192.168.10.1/24");
    const pid = () => machine.out("systemctl show -p MainPID --value holdfast");
    const before = await pid();
    const upgrade = commandsInRow("docs/upgrade.md", "tarball");
    await machine.out(`cd ${out}\n${upgrade}`);
    expect(await pid()).not.toBe(before);
    expect(await add(machine, "tar", "/opt/cni/bin/holdfast-ipam")).toBe("192.168.10.1/24");
    expect(await add(machine, "late", "/opt/cni/bin/holdfast-ipam")).toBe("192.168.10.2/24");
    await machine.out("holdfast check");
  });
});

/** The package of the commit before this one; null: this tree has no history. */
function packageOfCommitBefore(): string | null {
  const copy = join(out, "before");
  try {
    execFileSync("git", ["rev-parse", "--verify", "HEAD~1"], { cwd: ROOT, stdio: "pipe" });
  } catch {
    return null;
  }
  mkdirSync(copy);
  execFileSync("bash", ["-c", `git archive HEAD~1 | tar -x -C ${copy}`], { cwd: ROOT });
  execFileSync("cp", ["-al", join(ROOT, "node_modules"), join(copy, "node_modules")]);
  const words = ["--only", "packages", "--architectures", "x64", join(copy, "out")];
  for (const tool of [["tools/bundle.mjs"], ["tools/release.mjs", ...words]])
    execFileSync("node", tool, { cwd: copy, stdio: "pipe" });
  const made = readdirSync(join(copy, "out")).find((name) => name.endsWith(".deb"));
  return made === undefined ? null : join(copy, "out", made);
}

test.skipIf(reason !== null)(
  "an upgrade from the commit before keeps containers attached",
  async (context) => {
    const before = packageOfCommitBefore();
    if (before === null) return context.skip("no commit before this one is here");
    const machine = await Machine.start({ root: await debianRoot("bookworm") });
    try {
      await machine.out(`DEBIAN_FRONTEND=noninteractive apt-get install -q -y ${before} 2>&1`);
      await machine.out("systemctl enable --now holdfast 2>&1");
      const plugin = "/opt/cni/bin/holdfast-ipam";
      for (const name of ["web", "db", "cache"]) await add(machine, name, plugin);
      const held = await machine.out("holdfast list --no-headers | awk '{print $2, $3, $4, $5}'");
      const build = await machine.out("sha256sum /usr/lib/holdfast/lib/daemon.cjs");
      // As the page has it, but that this is no newer version.
      const upgrade = commandsInRow("docs/upgrade.md", "Debian package").replace(
        "apt-get install",
        "DEBIAN_FRONTEND=noninteractive apt-get install -q -y --reinstall --allow-downgrades",
      );
      await machine.out(`cd ${out}\n${upgrade} 2>&1`);
      expect(await machine.out("holdfast list --no-headers | awk '{print $2, $3, $4, $5}'")).toBe(held);
      expect(await add(machine, "web", plugin)).toBe("192.168.10.1/24");
      expect(await add(machine, "late", plugin)).toBe("192.168.10.4/24");
      await machine.out("holdfast check && holdfast doctor");
      console.log(
        `upgraded from ${build.slice(0, 12)} to ${(await machine.out("sha256sum /usr/lib/holdfast/lib/daemon.cjs")).slice(0, 12)}`,
      );
    } finally {
      await machine.stop();
    }
  },
  600_000,
);

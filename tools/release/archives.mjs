// The tarball and the Debian package of one architecture. Two builds of one commit give the same bytes.
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { ARCHITECTURES, stage } from "./tree.mjs";

const exec = promisify(execFile);
const ROOT = join(import.meta.dirname, "../..");
const DEBIAN = join(ROOT, "deploy/debian");

/**
 * A tar file of a directory: order, times and owners do not depend on the machine. `more`: further options of tar;
 * `what`: of the directory.
 */
export function archive(directory, file, epoch, more = [], what = ".") {
  const fixed = ["--sort=name", `--mtime=@${epoch}`, "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"];
  return exec("tar", [...fixed, "-C", directory, ...more, "-cf", resolve(file), what]);
}

/** holdfast-VERSION-linux-ARCH.tar.gz: one directory, to be unpacked into /. */
export async function tarball(arch, { out, work, version, epoch }) {
  const directory = join(work, `tar-${arch}`);
  await stage(arch, work, directory, {});
  const file = join(out, `holdfast-${version}-linux-${ARCHITECTURES[arch].oci}.tar.gz`);
  await archive(directory, file, epoch, ["-I", "gzip -n6"]);
}

/** holdfast_VERSION_ARCH.deb: what /usr/local has from `make install`, where Debian has it. */
export async function debianPackage(arch, { out, work, version, epoch }) {
  const directory = join(work, `deb-${arch}`);
  const { debian } = ARCHITECTURES[arch];
  await stage(arch, work, directory, {
    PREFIX: "/usr",
    CNI_BIN: "/usr/lib/cni",
    UNITS: "/usr/lib/systemd/system",
    SYSUSERS: "/usr/lib/sysusers.d",
  });
  // Where upstream's container runtimes look, which Debian's do not.
  mkdirSync(join(directory, "opt/cni/bin"), { recursive: true });
  symlinkSync("/usr/lib/cni/holdfast-ipam", join(directory, "opt/cni/bin/holdfast-ipam"));
  mkdirSync(join(directory, "etc/holdfast"), { recursive: true, mode: 0o755 });
  writeFileSync(join(directory, "etc/holdfast/daemon.yaml"), readFileSync(join(DEBIAN, "settings")));
  for (const [path, ...words] of [
    ["usr/share/bash-completion/completions/holdfast", "completion", "bash"],
    ["usr/share/zsh/vendor-completions/_holdfast", "completion", "zsh"],
    ["usr/share/fish/vendor_completions.d/holdfast.fish", "completion", "fish"],
    ["usr/share/man/man1/holdfast.1", "manual"],
  ]) {
    mkdirSync(join(directory, path, ".."), { recursive: true });
    writeFileSync(join(directory, path), execFileSync(process.execPath, ["dist/bin/holdfast", ...words]));
  }
  mkdirSync(join(directory, "usr/share/doc/holdfast"), { recursive: true });
  writeFileSync(
    join(directory, "usr/share/doc/holdfast/copyright"),
    `${readFileSync(join(ROOT, "LICENSE"), "utf8")}\n\n${readFileSync(join(directory, "usr/lib/holdfast/THIRD-PARTY-NOTICES"), "utf8")}`,
  );
  rmSync(join(directory, "usr/lib/holdfast/THIRD-PARTY-NOTICES"));
  symlinkSync("../../share/doc/holdfast/copyright", join(directory, "usr/lib/holdfast/THIRD-PARTY-NOTICES"));
  const control = join(directory, "DEBIAN");
  mkdirSync(control, { mode: 0o755 });
  const text = readFileSync(join(DEBIAN, "control"), "utf8");
  // dpkg sorts a candidate before its release by the tilde.
  const fields = {
    VERSION: version.replace("-", "~"),
    ARCHITECTURE: debian,
    SIZE: String(kilobytesOf(directory)),
  };
  writeFileSync(
    join(control, "control"),
    text.replace(/@(\w+)@/g, (_, name) => fields[name]),
  );
  for (const name of readdirSync(DEBIAN).filter((one) => /^(conffiles|(pre|post)(inst|rm))$/.test(one))) {
    writeFileSync(join(control, name), readFileSync(join(DEBIAN, name)));
    chmodSync(join(control, name), name === "conffiles" ? 0o644 : 0o755);
  }
  const file = join(out, `holdfast_${fields.VERSION}_${debian}.deb`);
  execFileSync("chmod", ["-R", "u+rwX,go+rX,go-w", directory]);
  // One thread: with several of them the bytes depend on how many there are.
  await exec("dpkg-deb", ["--root-owner-group", "--threads-max=1", "-Zxz", "-z1", "--build", directory, file], {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) },
  });
}

function kilobytesOf(directory) {
  const files = execFileSync("find", [directory, "-type", "f"], { encoding: "utf8" }).trim().split("\n");
  return Math.ceil(files.reduce((sum, file) => sum + statSync(file).size, 0) / 1024);
}

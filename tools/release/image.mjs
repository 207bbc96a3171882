// The image as an OCI layout in one file, for both architectures, without a container engine: Debian's packages
// unpacked, and the files of an installation. https://github.com/opencontainers/image-spec
import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { archive } from "./archives.mjs";
import { ARCHITECTURES, stage } from "./tree.mjs";

const exec = promisify(execFile);
/**
 * Of every image: what the Node of the product is linked to, and a shell with the few commands of an init container.
 */
const BASE = ["libstdc++6", "busybox-static"];
const COMMANDS = ["sh", "cat", "chmod", "cp", "ls", "mkdir", "mv", "rm"];
/**
 * What images have besides. The listener of the metadata service needs all of it; daemon, controller and server
 * nothing.
 */
const VARIANTS = {
  "": ["dash", "ethtool", "haproxy", "iproute2", "mount", "nftables", "openvswitch-common", "util-linux"],
  "-slim": [],
};
/** Of packages of which the listener needs a few programs only. */
const PROGRAMS = { mount: ["mount"], "util-linux": ["flock", "nsenter", "setpriv", "unshare"] };
/** Named as dependencies for installing, which is not done here: the programs above never load them. */
const NOT_NEEDED =
  /^(adduser|debconf|dpkg|gcc-\d+-base|init-system-helpers|lib(audit|bz2|db5|smartcols|udev|gdbm|pam|perl|python|semanage|sepol|sqlite|acl|nsl|tirpc|krb5|k5crypto|gssapi|com-err|keyutils|readline|ffi|uuid|ncurses).*|lib.*-perl|lsb-base|media-types|openssl|passwd|perl.*|python.*|readline-common|sysvinit-utils|tar|usrmerge|util-linux-extra)$/;
/** Of a package's files. Copyrights stay. */
const NOT_SHIPPED = [
  "./usr/share/man/*",
  "./usr/share/locale/*",
  "./usr/share/lintian/*",
  "./usr/share/bash-completion/*",
  "./etc/init.d/*",
  "./lib/systemd/*",
  "./usr/lib/systemd/*",
  // Of iproute2, with libraries of their own that nothing else has.
  "*/arpd",
  "*/ss",
  "*/tc/q_atm.so",
];
const USERS = `root:x:0:0:root:/root:/usr/sbin/nologin
holdfast-haproxy:x:65531:65532::/nonexistent:/usr/sbin/nologin
holdfast:x:65532:65532::/nonexistent:/usr/sbin/nologin
`;
const GROUPS = "root:x:0:\nholdfast:x:65532:\n";

/** holdfast-VERSION-image.tar and holdfast-VERSION-image-slim.tar. */
export async function images(architectures, { out, work, image, version, epoch }) {
  for (const variant of Object.keys(VARIANTS)) {
    const layout = join(work, `layout${variant}`);
    mkdirSync(join(layout, "blobs/sha256"), { recursive: true });
    const manifests = [];
    for (const arch of architectures) manifests.push(await imageOf(arch, { variant, layout, work, version, epoch }));
    const index = blob(layout, {
      schemaVersion: 2,
      mediaType: "application/vnd.oci.image.index.v1+json",
      manifests,
    });
    const named = { ...index, annotations: { "org.opencontainers.image.ref.name": `${image}${variant}` } };
    writeFileSync(join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [named] }));
    writeFileSync(join(layout, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
    await archive(layout, join(out, `holdfast-${version}-image${variant}.tar`), epoch);
  }
}

async function imageOf(arch, { variant, layout, work, version, epoch }) {
  const system = join(work, `system${variant}-${arch}`);
  const packages = await unpack(arch, [...BASE, ...VARIANTS[variant]], work, system);
  const product = join(work, `product-${arch}`);
  await stage(arch, work, product, { CNI_BIN: "/usr/local/lib/holdfast/bin", UNITS: "", SYSUSERS: "" });
  const layers = [];
  for (const directory of [system, product]) layers.push(await layerOf(directory, layout, epoch));
  const created = new Date(epoch * 1_000).toISOString().replace(".000", "");
  const config = blob(layout, {
    architecture: ARCHITECTURES[arch].oci,
    os: "linux",
    created,
    config: {
      User: "65532:65532",
      Env: ["PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"],
      Entrypoint: ["/usr/local/bin/holdfast"],
      Labels: {
        "org.opencontainers.image.title": "Holdfast",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "dev.holdfast.debian-packages": packages.join(" "),
      },
    },
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    history: ["Debian's packages", "Holdfast"].map((created_by) => ({ created, created_by })),
  });
  const manifest = blob(layout, {
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: { ...config, mediaType: "application/vnd.oci.image.config.v1+json" },
    layers: layers.map(({ descriptor }) => descriptor),
  });
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  return { ...manifest, mediaType, platform: { architecture: ARCHITECTURES[arch].oci, os: "linux" } };
}

/** Debian's packages with what they need, below a directory; their names and versions. */
async function unpack(arch, names, work, root) {
  const { debian } = ARCHITECTURES[arch];
  const apt = join(work, `apt-${debian}`);
  // What is there already is not named.
  const debs = join(root, "../debs", basename(root));
  for (const path of [join(apt, "state/lists/partial"), join(apt, "cache"), join(debs, "partial")])
    mkdirSync(path, { recursive: true });
  const settings = {
    "Dir::State": join(apt, "state"),
    "Dir::State::status": "/dev/null",
    "Dir::Cache": join(apt, "cache"),
    "Dir::Cache::archives": debs,
  };
  const options = Object.entries({
    ...settings,
    "APT::Architecture": debian,
    "APT::Architectures": debian,
    "APT::Install-Recommends": "false",
    "APT::Sandbox::User": "root",
  });
  const words = ["-q", "-y", ...options.flatMap(([name, value]) => ["-o", `${name}=${value}`])];
  if (readdirSync(join(apt, "state/lists")).length === 1) await exec("apt-get", [...words, "update"]);
  const { stdout } = await exec("apt-get", [...words, "--print-uris", "install", ...names]);
  const wanted = [...stdout.matchAll(/^'[^']+' (\S+?)_(\S+)_\S+\.deb /gm)]
    .map(([, name, edition]) => ({ name, version: edition.replace("%3a", ":") }))
    .filter(({ name }) => names.includes(name) || !NOT_NEEDED.test(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  await exec("apt-get", [...words, "download", ...wanted.map(({ name, version }) => `${name}=${version}`)], {
    cwd: debs,
  });
  rmSync(root, { recursive: true, force: true });
  // As Debian has them since it has one /usr.
  for (const name of ["bin", "sbin", "lib", "lib64"]) {
    mkdirSync(join(root, "usr", name), { recursive: true });
    symlinkSync(`usr/${name}`, join(root, name));
  }
  for (const { name, version } of wanted) {
    const file = readdirSync(debs).find((one) => one.startsWith(`${name}_${version.replace(":", "%3a")}_`));
    const files = execFileSync("dpkg-deb", ["--fsys-tarfile", join(debs, file)], { maxBuffer: 2 ** 30 });
    const left = NOT_SHIPPED.map((pattern) => `--exclude=${pattern}`);
    const programs = (PROGRAMS[name] ?? []).map((program) => `*/bin/${program}`);
    const only = programs.length === 0 ? [] : ["--wildcards", ...programs, `./usr/share/doc/${name}/copyright`];
    execFileSync("tar", ["-x", "--keep-directory-symlink", ...left, "-C", root, ...only], {
      input: files,
      stdio: ["pipe", "ignore", "pipe"],
    });
  }
  // The shell of busybox runs programs of its own in place of those of the listener.
  const shell = existsSync(join(root, "usr/bin/dash")) ? "dash" : "busybox";
  for (const command of COMMANDS) {
    rmSync(join(root, "usr/bin", command), { force: true });
    symlinkSync(command === "sh" ? shell : "busybox", join(root, "usr/bin", command));
  }
  mkdirSync(join(root, "etc"), { recursive: true });
  writeFileSync(join(root, "etc/passwd"), USERS);
  writeFileSync(join(root, "etc/group"), GROUPS);
  for (const name of ["tmp", "run", "proc", "sys", "dev", "var/lib", "root"])
    mkdirSync(join(root, name), { recursive: true });
  // Where haproxy looks for network namespaces.
  symlinkSync("../run", join(root, "var/run"));
  return wanted.map(({ name, version }) => `${name}=${version}`);
}

async function layerOf(directory, layout, epoch) {
  const plain = `${directory}.tar`;
  await archive(directory, plain, epoch);
  const diffId = `sha256:${sha256(readFileSync(plain))}`;
  await exec("gzip", ["-nf6", plain]);
  const descriptor = blob(layout, readFileSync(`${plain}.gz`));
  return { diffId, descriptor: { ...descriptor, mediaType: "application/vnd.oci.image.layer.v1.tar+gzip" } };
}

/** Writes bytes, or an object as JSON, under its sum. */
function blob(layout, content) {
  const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
  const sum = sha256(bytes);
  const file = join(layout, "blobs/sha256", sum);
  writeFileSync(file, bytes);
  return { mediaType: content.mediaType, digest: `sha256:${sum}`, size: statSync(file).size };
}

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

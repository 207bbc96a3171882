// The files of an installation, for one architecture, below a directory.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { writeCodeCaches } from "../code-caches.mjs";
import { ofArchitecture } from "../supply.mjs";

const ROOT = join(import.meta.dirname, "../..");
/** By Node's names for them. */
export const ARCHITECTURES = {
  x64: { debian: "amd64", oci: "amd64", machine: "x86_64", compiler: "x86_64-linux-gnu-gcc" },
  arm64: { debian: "arm64", oci: "arm64", machine: "aarch64", compiler: "aarch64-linux-gnu-gcc" },
};
/** Runs programs of another architecture, where it is there. */
const EMULATOR = {
  x64: ["qemu-x86_64-static", "-L", "/usr/x86_64-linux-gnu"],
  arm64: ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"],
};

function make(...words) {
  execFileSync("make", ["-s", ...words], { cwd: ROOT, stdio: ["ignore", "ignore", "inherit"] });
}

/**
 * `make install` for an architecture into `directory`, with variables of the Makefile. `work`: for what is made on the
 * way.
 */
export async function stage(arch, work, directory, variables) {
  rmSync(directory, { recursive: true, force: true });
  const words = Object.entries({ ...(await builtFor(arch, work)), DESTDIR: directory, ...variables });
  make("install", ...words.map(([name, value]) => `${name}=${value}`));
}

/** What the Makefile installs for an architecture, made where it is not there yet: its variables. */
export async function builtFor(arch, work) {
  if (arch === process.arch) return {};
  const dist = join(work, arch);
  const node = nodeOf(arch);
  const variables = { DIST: dist, INSTALLED_NODE: node, CC: ARCHITECTURES[arch].compiler };
  if (existsSync(join(dist, "done"))) return variables;
  rmSync(dist, { recursive: true, force: true });
  cpSync("dist/lib", join(dist, "lib"), { recursive: true, filter: (path) => !/\.(cache|node)$/.test(path) });
  mkdirSync(join(dist, "bin"));
  for (const file of ["bin/holdfast", "package.json"]) copyFileSync(join("dist", file), join(dist, file));
  copyFileSync(`node_modules/better-sqlite3/prebuilds/linux-${arch}.node`, join(dist, "lib/better_sqlite3.node"));
  const [notices, sbom] = ["THIRD-PARTY-NOTICES", "sbom.cdx.json"].map((name) =>
    readFileSync(join("dist", name), "utf8"),
  );
  const own = ofArchitecture(arch, { notices, sbom });
  writeFileSync(join(dist, "THIRD-PARTY-NOTICES"), own.notices);
  writeFileSync(join(dist, "sbom.cdx.json"), own.sbom);
  make(`CC=${variables.CC}`, `DIST=${dist}`, `${dist}/bin/holdfast-ipam`);
  // Without them a process compiles at each start what it has compiled once: it takes a third longer.
  await writeCodeCaches(join(dist, "lib"), ...EMULATOR[arch], resolve(node));
  writeFileSync(join(dist, "done"), "");
  return variables;
}

/** The Node of another architecture, as package-lock.json has it. */
function nodeOf(arch) {
  const name = `node-linux-${arch}`;
  const { version, integrity } = JSON.parse(readFileSync("package-lock.json", "utf8")).packages[`node_modules/${name}`];
  const directory = `build/${name}-${version}`;
  const node = join(directory, "package/bin/node");
  if (existsSync(node)) return node;
  mkdirSync(directory, { recursive: true });
  execFileSync("npm", ["pack", `${name}@${version}`, "--silent", "--pack-destination", directory], {
    stdio: ["ignore", "ignore", "inherit"],
    // npm runs with the Node that it came with.
    env: { ...process.env, PATH: process.env.PATH.replace(`${ROOT}/node_modules/.bin:`, "") },
  });
  const [file] = readdirSync(directory);
  const found = `sha512-${createHash("sha512")
    .update(readFileSync(join(directory, file)))
    .digest("base64")}`;
  if (found !== integrity)
    throw new Error(
      `${name} ${version} is ${found}, and package-lock.json says ${integrity}: the registry has another one`,
    );
  execFileSync("tar", ["-xzf", join(directory, file), "-C", directory]);
  return node;
}

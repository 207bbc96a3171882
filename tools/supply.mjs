// What of others is in dist/: their licences (THIRD-PARTY-NOTICES) and the list of it all (sbom.cdx.json, CycloneDX
// 1.5). Made from what esbuild really read, so that nothing is missing and nothing is named that is not there.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";

const LICENCE_FILE = /^((un)?licen[cs]e|copying|notice)([.-].*)?$/i;
/** For packages that declare it and bring no text along. */
const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;

/** `metafiles`: of every bundle. `legalComments`: what the bundled files say of their licences in comments. */
export function writeSupplyChain(metafiles, legalComments) {
  const packages = packagesOf(metafiles.flatMap(({ inputs }) => Object.keys(inputs)));
  const parts = [...packages, ...compiledParts()];
  writeFileSync("dist/THIRD-PARTY-NOTICES", noticesOf(parts, legalComments));
  writeFileSync("dist/sbom.cdx.json", `${JSON.stringify(sbomOf(parts), null, 2)}\n`);
}

/** The packages that files belong to, also where one has a copy of another inside, in order of their names. */
function packagesOf(files) {
  const lock = readJson("package-lock.json").packages;
  const directories = new Set(files.map(directoryOf).filter((directory) => directory !== null));
  // Its prebuilt module is in dist/lib, and the Node that runs everything is installed beside the bundles.
  directories.add("node_modules/better-sqlite3");
  directories.add(`node_modules/node-linux-${process.arch}`);
  return [...directories].sort().map((directory) => {
    const { name, version, license, author } = readJson(join(directory, "package.json"));
    const locked = lock[directory];
    if (locked?.version !== version)
      throw new Error(
        `${directory} is ${version}, and package-lock.json has ${locked?.version ?? "none"}: run npm install`,
      );
    const texts = licenceTexts(directory);
    if (texts.length === 0 && license === "MIT")
      texts.push(`Copyright ${nameOf(author) ?? `the authors of ${name}`}\n\n${MIT}`);
    if (texts.length === 0 || typeof license !== "string")
      throw new Error(`${name} ${version} has no licence file or no licence in package.json: it must not be shipped`);
    return {
      name,
      version,
      licence: license,
      texts,
      purl: `pkg:npm/${name.replace(/^@/, "%40")}@${version}`,
      sha512: Buffer.from(locked.integrity.replace(/^sha512-/, ""), "base64").toString("hex"),
      dependsOn: Object.keys(locked.dependencies ?? {}).map((one) => resolve(directory, one, directories)),
      directory,
    };
  });
}

/** `node_modules/a/node_modules/@b/c` of a file in it; null: it is our own. */
function directoryOf(file) {
  const at = file.lastIndexOf("node_modules/");
  if (at < 0) return null;
  const [first, second] = file.slice(at + "node_modules/".length).split("/");
  return `${file.slice(0, at)}node_modules/${first.startsWith("@") ? `${first}/${second}` : first}`;
}

/** The directory by which Node finds `name` from another package; null: nothing of it is bundled. */
function resolve(from, name, directories) {
  for (let directory = from; ; directory = directory.slice(0, directory.lastIndexOf("/node_modules/"))) {
    const candidate = `${directory}/node_modules/${name}`;
    if (directories.has(candidate)) return candidate;
    if (existsSync(candidate)) return null;
    if (!directory.includes("/node_modules/")) break;
  }
  const candidate = `node_modules/${name}`;
  return directories.has(candidate) ? candidate : null;
}

function nameOf(author) {
  return typeof author === "string" ? author : author?.name;
}

function licenceTexts(directory) {
  return readdirSync(directory)
    .filter((name) => LICENCE_FILE.test(name))
    .sort()
    .map((name) => readFileSync(join(directory, name), "utf8").trim());
}

/** What is compiled in: SQLite into its module, the C library into the plugin binary. */
function compiledParts() {
  const memory = new Database(":memory:");
  const sqlite = memory.prepare("SELECT sqlite_version()").pluck().get();
  memory.close();
  const parts = [
    {
      name: "sqlite",
      version: sqlite,
      licence: "blessing",
      texts: ["SQLite is in the public domain: https://sqlite.org/copyright.html"],
      purl: `pkg:generic/sqlite@${sqlite}`,
      dependsOn: [],
    },
  ];
  const glibc = libraryVersion();
  if (glibc !== null)
    parts.push({
      name: "glibc",
      version: glibc,
      licence: "LGPL-2.1-or-later",
      texts: [
        "The plugin binary holdfast-ipam contains parts of the GNU C Library, which is free software under the GNU Lesser General\n" +
          "Public License, version 2.1 or later: https://www.gnu.org/licenses/old-licenses/lgpl-2.1.html. Its source is that of the\n" +
          "distribution that holdfast-ipam was built on; with the sources of Holdfast it can be linked again with another version.",
      ],
      purl: `pkg:generic/glibc@${glibc}`,
      dependsOn: [],
    });
  return parts;
}

/** Of the GNU C Library; null: the system has another one. */
function libraryVersion() {
  try {
    const text = execFileSync("getconf", ["GNU_LIBC_VERSION"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return text.trim().split(" ")[1] ?? null;
  } catch {
    return null;
  }
}

function noticesOf(parts, legalComments) {
  const rule = "=".repeat(78);
  const sections = parts.map(
    ({ name, version, licence, texts }) => `${rule}\n${name} ${version} (${licence})\n\n${texts.join("\n\n")}\n`,
  );
  const comments = [...new Set(legalComments.map((text) => text.trim()))].filter((text) => text !== "").sort();
  return [
    "Holdfast contains these works of others, under these terms. sbom.cdx.json beside this file has the same list for machines.\n",
    ...sections,
    ...(comments.length === 0 ? [] : [`${rule}\nFrom comments in their files\n\n${comments.join("\n\n")}\n`]),
  ].join("\n");
}

function sbomOf(parts) {
  const { name, version, description } = readJson("package.json");
  const root = `pkg:generic/${name}@${version}`;
  const refs = new Map(parts.filter(({ directory }) => directory).map(({ directory, purl }) => [directory, purl]));
  const components = parts.map((part) => {
    const [group, own] = part.name.startsWith("@") ? part.name.split("/") : [null, part.name];
    return {
      type: "library",
      "bom-ref": part.purl,
      ...(group === null ? {} : { group }),
      name: own,
      version: part.version,
      ...(part.sha512 ? { hashes: [{ alg: "SHA-512", content: part.sha512 }] } : {}),
      licenses: [/[( ]/.test(part.licence) ? { expression: part.licence } : { license: { id: part.licence } }],
      purl: part.purl,
    };
  });
  const body = {
    metadata: { component: { type: "application", "bom-ref": root, name, version, description, purl: root } },
    components,
    dependencies: [
      { ref: root, dependsOn: parts.map(({ purl }) => purl) },
      ...parts.map(({ purl, dependsOn }) => ({
        ref: purl,
        dependsOn: dependsOn.map((directory) => refs.get(directory)).filter((ref) => ref !== undefined),
      })),
    ],
  };
  return numbered(body);
}

/** For the Node of another architecture: what is in dist/ is the same. `files`: notices and SBOM as they are there. */
export function ofArchitecture(arch, { notices, sbom }) {
  const [here, there] = [`node-linux-${process.arch}`, `node-linux-${arch}`];
  const { integrity } = readJson("package-lock.json").packages[`node_modules/${there}`];
  const content = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex");
  const {
    bomFormat: _,
    specVersion: __,
    serialNumber: ___,
    version: ____,
    ...body
  } = JSON.parse(sbom.replaceAll(here, there));
  for (const component of body.components)
    if (component.name === there) component.hashes = [{ alg: "SHA-512", content }];
  return { notices: notices.replaceAll(here, there), sbom: `${JSON.stringify(numbered(body), null, 2)}\n` };
}

/** The same content has the same number, so that two builds of one release can be compared. */
function numbered(body) {
  const digest = createHash("sha256").update(JSON.stringify(body)).digest("hex");
  const uuid = `${digest.slice(0, 8)}-${digest.slice(8, 12)}-5${digest.slice(13, 16)}-8${digest.slice(17, 20)}-${digest.slice(20, 32)}`;
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    serialNumber: `urn:uuid:${uuid}`,
    version: 1,
    ...body,
  };
}

function readJson(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

// `make release`: everything that somebody installs, in dist/release. See docs/release.md, and docs/decisions/0070.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { debianPackage, tarball } from "./release/archives.mjs";
import { chart } from "./release/chart.mjs";
import { clusterctlFiles } from "./release/clusterctl.mjs";
import { images } from "./release/image.mjs";
import { alertRules, observabilityFile, oneFile } from "./release/manifests.mjs";
import { ARCHITECTURES, builtFor } from "./release/tree.mjs";

const ROOT = join(import.meta.dirname, "..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const { values, positionals } = parseArgs({
  options: {
    image: { type: "string", default: `holdfast:${version}` },
    components: { type: "string", default: "" },
    without: { type: "string", default: "" },
    architectures: { type: "string", default: Object.keys(ARCHITECTURES).join(" ") },
    only: { type: "string", default: "manifests packages image" },
  },
  allowPositionals: true,
});
const [shown = "dist/release"] = positionals;
const out = resolve(positionals[0] ?? join(ROOT, shown));
process.chdir(ROOT);
const wordsIn = (text) => text.split(/[\s,]+/).filter((one) => one !== "");
const work = resolve(out, ".work");
const architectures = wordsIn(values.architectures);
const unknown = architectures.find((arch) => ARCHITECTURES[arch] === undefined);
if (unknown !== undefined)
  throw new Error(`there is no architecture ${unknown}: expected some of ${Object.keys(ARCHITECTURES).join(", ")}`);
const { image, without } = values;
if (!["", "flowcontrol"].includes(without)) throw new Error(`nothing is left out by ${without}: expected flowcontrol`);
/** What everything is dated by: two builds of one commit are the same. */
const epoch = Number(process.env.SOURCE_DATE_EPOCH ?? lastCommit());
const PARTS = {
  manifests: async () => {
    await chart({ out, work, version, image, epoch });
    const components = wordsIn(values.components);
    const options = { components, flowControl: without !== "flowcontrol" };
    return {
      "holdfast.yaml": oneFile({ image, version, ...options }),
      "holdfast-observability.yaml": observabilityFile(version),
      "holdfast.rules.yml": alertRules(),
      ...clusterctlFiles({ image, version, components }),
    };
  },
  packages: async () => {
    const made = [];
    for (const arch of architectures) {
      await builtFor(arch, work);
      made.push(tarball(arch, { out, work, version, epoch }), debianPackage(arch, { out, work, version, epoch }));
    }
    await Promise.all(made);
    return {
      "sbom.cdx.json": readFileSync("dist/sbom.cdx.json"),
      "THIRD-PARTY-NOTICES": readFileSync("dist/THIRD-PARTY-NOTICES"),
    };
  },
  image: async () => {
    await images(architectures, { out, work, image, version, epoch });
    return {};
  },
};

rmSync(out, { recursive: true, force: true });
mkdirSync(work, { recursive: true });
for (const name of wordsIn(values.only)) {
  const files = await PARTS[name]();
  for (const [file, content] of Object.entries(files)) writeFileSync(join(out, file), content);
}
rmSync(work, { recursive: true });
const sums = readdirSync(out)
  .sort()
  .map((name) => ({ name, size: statSync(join(out, name)).size, sum: sha256(join(out, name)) }));
writeFileSync(join(out, "SHA256SUMS"), sums.map(({ name, sum }) => `${sum}  ${name}\n`).join(""));
for (const { name, size, sum } of sums) console.log(`${sum}  ${(size / 1e6).toFixed(2).padStart(7)} MB  ${name}`);
console.log(`${shown}: ${sums.length} files and SHA256SUMS, version ${version}, image ${image}`);

function sha256(file) {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

/** 0 in a tree that is no repository. */
function lastCommit() {
  try {
    return execFileSync("git", ["log", "-1", "--format=%ct"], { encoding: "utf8" }).trim();
  } catch {
    return 0;
  }
}

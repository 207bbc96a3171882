// Before `make release` (docs/decisions/0048): is the Node of package.json the newest of its line? It runs with the
// system's Node, as npm does, and before anything is installed.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const OVERRIDE = "STALE=1 makes the release all the same";
const { optionalDependencies } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
const pinned = Object.entries(optionalDependencies).filter(([name]) => name.startsWith("node-linux-"));
const [, version] = pinned[0];
const line = Number(version.split(".")[0]);

/** Numbers of the versions of this line that a package has, as npm knows them. */
function published(name) {
  // Not from its cache: an answer of yesterday is what this is about.
  const words = ["view", name, "versions", "--json", "--prefer-online"];
  const text = execFileSync("npm", words, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  return [JSON.parse(text)].flat().filter((one) => new RegExp(`^${line}\\.\\d+\\.\\d+$`).test(one));
}

function compare(a, b) {
  const [left, right] = [a, b].map((one) => one.split(".").map(Number));
  const at = left.findIndex((number, i) => number !== right[i]);
  return at < 0 ? 0 : left[at] - right[at];
}

function refuse(message) {
  console.error(message);
  process.exit(1);
}

let everywhere;
try {
  // A version is one that can be shipped once both architectures have it.
  const [first, ...others] = pinned.map(([name]) => published(name));
  everywhere = first.filter((one) => others.every((versions) => versions.includes(one)));
} catch (error) {
  refuse(
    `npm cannot say which Node ${line} is the newest (${error.message.split("\n")[0]}): try again where it reaches ` +
      `its registry. ${OVERRIDE}`,
  );
}
const newest = everywhere.sort(compare).at(-1);
if (newest !== undefined && compare(version, newest) < 0)
  refuse(
    `package.json has Node ${version}, and Node ${newest} is published: write ${newest} for ` +
      `${pinned.map(([name]) => name).join(" and ")} there, run npm install, and test. ${OVERRIDE}`,
  );

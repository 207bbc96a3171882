import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ROWS } from "../../store/cluster/agreement/relations.ts";
import { read, tracked } from "./tracked.ts";

const ROOT = join(import.meta.dirname, "../..");
const { GROUPS } = (await import(`${ROOT}/tools/docs-site/pages.mjs`)) as {
  GROUPS: Readonly<Record<string, readonly string[]>>;
};
const pagesIn = (directory: string) => readdirSync(join(ROOT, directory)).filter((name) => name.endsWith(".md"));

test("the site's list of pages has each page once", () => {
  const listed = Object.values(GROUPS).flat();
  const pages = pagesIn("docs").map((name) => `docs/${name.replace(/\.md$/, "")}`);
  expect(listed.filter((page) => /^docs\/[^/]+$/.test(page)).sort()).toEqual(pages.sort());
  expect(new Set(listed).size).toBe(listed.length);
});

test("a decision has one form, and the list of decisions has each once, with its title, under a room", () => {
  const names = pagesIn("docs/decisions").filter((name) => name !== "README.md");
  const decisions = names.map((name) => ({ name, text: read(`docs/decisions/${name}`) }));
  for (const { name, text } of decisions) {
    expect(text, name).toMatch(new RegExp(`^# ${Number(name.slice(0, 4))}\\. `));
    expect(text, name).toContain("\n**Context.**");
    expect(text, name).not.toMatch(
      /^(?:## )?(?:Context|Choice|Considered|Decision|What would change our mind)\b(?!\.\*\*)/m,
    );
  }
  const [, ...groups] = read("docs/decisions/README.md").split("\n## ");
  const listed = groups.flatMap((group) => group.split("\n").filter((line) => line.startsWith("- [")));
  const titles = decisions.map(({ name, text }) => {
    return `- [${name.slice(0, 4)}](${name}): ${text.slice(0, text.indexOf("\n")).replace(/^# \d+\. /, "")}`;
  });
  expect(listed.sort()).toEqual(titles.sort());
  const rooms = new Set(tracked(/^[a-z-]+\/.*\.ts$/).map((file) => `${file.split("/")[0]}/`));
  const named = groups.flatMap((group) =>
    [...(group.split("\n")[0] ?? "").matchAll(/`([^`]+\/)`/g)].map(([, room]) => room),
  );
  expect(named.filter((room) => room !== "deploy/" && !rooms.has(room?.replace(/(?<=\/).+/, "") ?? ""))).toEqual([]);
});

test("the page about uses has the table's rows, in their order", () => {
  const table = ROWS.map(({ name, when, verdict }) => `${name} | ${when.phase} | ${verdict}`);
  const lines = read("docs/uses.md").matchAll(/^\| (\S+) +\| (\w+) +\| .* \| (\w+) +\|$/gm);
  const told = [...lines].map(([, name, phase, verdict]) => `${name} | ${phase} | ${verdict}`);
  expect(told.filter((line) => !line.startsWith("row |"))).toEqual(table);
});

test("no command that is shown has a secret among its arguments, which everybody on the machine can read", () => {
  const shown = tracked(/(^docs\/(?!decisions).*|^deploy\/.*|^examples\/.*|^[A-Z]+)\.(md|yaml|yml|txt|tpl|service)$/);
  expect(shown.length).toBeGreaterThan(50);
  const withSecret =
    /--from-literal|--docker-password|--(token|password|secret|key)[= ](?!file)["'$\w]|\$\((openssl|kubectl create token)|authorization: (bearer|basic) |\bcurl\b.* (-u|--user) /i;
  const found = shown.flatMap((file) =>
    read(file)
      .split("\n")
      .flatMap((line, index) => (withSecret.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});

/** As GitHub makes anchors of headings. */
function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>();
  const outside = text.replaceAll(/^```.*?^```$/gms, "");
  const headings = [...outside.matchAll(/^#{1,6} (.*)$/gm)].map(([, title = ""]) => {
    const plain = title.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/[`*]/g, "");
    const slug = plain
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(/\s/g, "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
  return new Set(headings);
}

test("every link of a page leads to a file that exists, and to a heading that it has", () => {
  const broken: string[] = [];
  for (const page of tracked(/\.md$/)) {
    const text = read(page)
      .replaceAll(/^```.*?^```$/gms, "")
      .replaceAll(/`[^`\n]*`/g, "");
    for (const [, link = ""] of text.matchAll(/\]\(([^()\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? page : join(dirname(page), path);
      if (!existsSync(join(ROOT, target))) broken.push(`${page}: ${link}`);
      else if (anchor !== undefined && !(target.endsWith(".md") && anchorsOf(read(target)).has(anchor)))
        broken.push(`${page}: ${link}`);
    }
  }
  expect(broken).toEqual([]);
});

/**
 * Names that these pages have, or that somebody may write next: each is in the table of docs/sources.md, or on no page.
 */
const OTHERS =
  /\b(Antrea|baremetal-operator|Calico|CAPK|CAPM3|CAPMOX|CAPV|Cilium|cloud-init|cloudbase-init|Cluster API|CRI-O|Flannel|Forklift|Harvester|host-local|Ignition|ipam-extensions|Kube-OVN|Kubernetes|KubeVirt|Metal3 IPAM|Multus|nerdctl|NetBox|Neutron|Nova|Open vSwitch|OVN-Kubernetes|OVN(?!-)|podman|Ramen|Spiderpool|Velero|whereabouts)\b/g;

test("each other project that a page speaks of has its version and source in one table", () => {
  const rows = read("docs/sources.md")
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) => line.split("|").map((cell) => cell.trim()));
  for (const [, project, version = "", how = "", , source = ""] of rows) {
    expect(version, project).toMatch(/\d/);
    expect(how, project).toMatch(/^(read|run)$/);
    expect(source, project).toMatch(/^\[source\]\(https:\/\/\S+\)$/);
  }
  const named = tracked(/^(README|docs\/[^/]+)\.md$/)
    .filter((page) => page !== "docs/sources.md")
    .flatMap((page) => read(page).match(OTHERS) ?? []);
  expect(rows.map(([, project]) => project)).toEqual([...new Set(named)].sort((a, b) => a.localeCompare(b)));
});

test("each IPAM that is compared has a version, and a link that leads to what was read", () => {
  const page = read("docs/comparison.md");
  const [, table = ""] = page.split("| IPAM ");
  const rows = [...(table.split("\n\n")[0] ?? "").matchAll(/^\| ([^|]+?) +\|/gm)].map(([, name = ""]) => name);
  const compared = rows.filter((name) => name !== "Holdfast" && !/^-+$/.test(name));
  expect(compared.length).toBeGreaterThan(4);
  for (const name of compared) {
    const [, target] = /^\[\S+ \d+\.\d+\.\d+\]\[(\S+)\]$/.exec(name) ?? [];
    expect(target, name).toBeDefined();
    expect(page).toContain(`\n[${target}]: https://`);
  }
});

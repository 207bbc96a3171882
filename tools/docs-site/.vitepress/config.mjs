// `make docs`: the Markdown of this repository as a site, with search, that asks nobody on the network. Each page is
// where its file is.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { GROUPS } from "../pages.mjs";

/** tools/docs.mjs copies the pages beside this directory. */
const ROOT = join(import.meta.dirname, "..");

const titleOf = (page) =>
  /^# (.*)$/m.exec(readFileSync(join(ROOT, `${page.replace(/\/$/, "/README")}.md`), "utf8"))?.[1] ?? page;
const isPage = (url) => /(^|\/)(docs|bench)\/[\w/-]*$|\/[A-Z]+$/.test(url);
const linkOf = (page) => (page === "README" ? "/" : `/${page}`);

export default {
  title: "Holdfast",
  description: "IPAM for the secondary networks of VMs and containers",
  srcExclude: ["**/node_modules/**"],
  rewrites: { "README.md": "index.md", "docs/decisions/README.md": "docs/decisions/index.md" },
  // Links to files that are no pages: manifests, sources, the licence. The repository's own test looks at every link.
  ignoreDeadLinks: [(url) => !isPage(url)],
  markdown: { html: false },
  // Nothing in a page is an expression of Vue, whatever braces it has.
  vue: { template: { compilerOptions: { delimiters: ["\u0001", "\u0002"] } } },
  lastUpdated: false,
  metaChunk: true,
  themeConfig: {
    search: { provider: "local" },
    outline: { level: [2, 3] },
    sidebar: Object.entries(GROUPS).map(([text, pages]) => ({
      text,
      items: pages.map((page) => ({ text: titleOf(page), link: linkOf(page) })),
    })),
  },
};

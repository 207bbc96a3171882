import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { run } from "../../harness/daemon.ts";
import type { KubeObject } from "../../harness/kube-api.ts";

const ROOT = join(import.meta.dirname, "../../..");
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const { FLOW_CONTROL } = (await import(`${ROOT}/tools/release/manifests.mjs`)) as { FLOW_CONTROL: string };
const OPERATOR = "monitoring.coreos.com/v1";
/** `holdfast:` of deploy/ as the values' image: what is compared is all the rest. */
const LIKE_DEPLOY = { image: { repository: "holdfast", tag: version } };

export type Values = { readonly [key: string]: unknown };

/** null: Go is there, whose template engine is Helm's. */
export const whyNoRenderer =
  (await run("go", ["version"]).catch(() => ({ code: 1 }))).code === 0
    ? null
    : "needs golang-go, whose template engine is Helm's";

/** As Helm does: maps are merged, everything else is replaced. */
export function merged(values: Values, more: Values): Values {
  const isMap = (value: unknown): value is Values =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const entries = Object.entries(more).map(([key, value]) => {
    const own = values[key];
    return [key, isMap(value) && isMap(own) ? merged(own, value) : value] as const;
  });
  return { ...values, ...Object.fromEntries(entries) };
}

/** The Helm chart of a release, and the engine that renders it. */
export class RenderedChart {
  /** The unpacked chart. */
  readonly path: string;
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.path = join(directory, "holdfast");
  }

  /** Of the sources in a tree; default: these. */
  static async make(image: string, tree = ROOT): Promise<RenderedChart> {
    const directory = mkdtempSync(join(tmpdir(), "holdfast-chart-"));
    const out = join(directory, "out");
    const words = ["--only", "manifests", "--image", image, out];
    const { code, stderr } = await run(process.execPath, [join(tree, "tools/release.mjs"), ...words]);
    if (code !== 0) throw new Error(stderr);
    const [file = ""] = readdirSync(out).filter((name) => name.endsWith(".tgz"));
    execFileSync("tar", ["-C", directory, "-xzf", join(out, file)]);
    if (whyNoRenderer === null) {
      const env = { ...process.env, GOCACHE: join(directory, "go"), GO111MODULE: "off" };
      const source = "test/deploy/helm/render.go";
      execFileSync("go", ["build", "-o", join(directory, "render"), source], { cwd: ROOT, env });
    }
    return new RenderedChart(directory);
  }

  render(
    given: Values = {},
    namespace = "holdfast-system",
    APIVersions: readonly string[] = [FLOW_CONTROL, OPERATOR],
    KubeVersion = "v1.36.2",
  ): { objects: KubeObject[]; notes: string; text: string } {
    const about = parse(readFileSync(join(this.path, "Chart.yaml"), "utf8"));
    const own = parse(readFileSync(join(this.path, "values.yaml"), "utf8"));
    const input = JSON.stringify({
      Values: merged(own, merged(LIKE_DEPLOY, given)),
      Release: { Name: "holdfast", Namespace: namespace },
      Chart: { Name: about.name, Version: about.version, AppVersion: about.appVersion },
      APIVersions,
      KubeVersion,
    });
    const rendered = execFileSync(join(this.#directory, "render"), [this.path], {
      input,
      stdio: "pipe",
      encoding: "utf8",
    });
    const { "NOTES.txt": notes, ...manifests } = JSON.parse(rendered) as Record<string, string>;
    const objects = Object.values(manifests).flatMap((text) =>
      parseAllDocuments(text)
        .map((one) => one.toJS())
        .filter((one) => one !== null),
    );
    return { objects, notes: notes as string, text: Object.values(manifests).join("") };
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

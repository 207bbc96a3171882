import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { TestCluster } from "./cluster.ts";
import { run } from "./daemon.ts";
import type { Step } from "./documents.ts";
import { ProductProcess } from "./product-process.ts";
import { until } from "./wait.ts";

const PROJECT = join(import.meta.dirname, "../..");
const CONTROLLER = "/apis/apps/v1/namespaces/holdfast-system/deployments/holdfast-controller";
/** Of tools/release.mjs, before Kubernetes 1.29. */
export const FOR_OLD_SERVER = "--without=flowcontrol";
/** Commands that change nothing: what they show may come a moment later. */
const LOOKING = /^(kubectl (-n \S+ )?get|holdfast|curl -s) /;

/** What a page leaves to others. */
interface Others {
  /** What is typed in place of a line for which there is no program here. */
  readonly commands?: Readonly<Record<string, string>>;
  /** What is another text here each time, by how the page has it. */
  readonly texts?: Readonly<Record<string, string>>;
  /** What somebody does on the cluster when a step was seen whose commands match; each once, in this order. */
  readonly acts: readonly { readonly after: RegExp; readonly act: () => Promise<unknown> }[];
}

/** deploy/ in a source tree of a test's own, for the server of the tests, which is older than Kubernetes 1.29. */
export function copyDeploy(tree: string): void {
  cpSync(join(PROJECT, "deploy"), join(tree, "deploy"), { recursive: true });
  const file = join(tree, "deploy/kustomization.yaml");
  writeFileSync(file, readFileSync(file, "utf8").replace("  - flowcontrol.yaml\n", ""));
}

/** In place of `make release` with these components, which a page types in the source tree: the same without make. */
export function withReleaseMade(components: string, parts = "manifests"): Record<string, string> {
  const { version } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")) as { version: string };
  const image = `registry.example/holdfast:${version}`;
  const quoted = (text: string) => (text.includes(" ") ? `"${text}"` : text);
  const named = components === "" ? "" : ` COMPONENTS=${quoted(components)}`;
  const words = `--only manifests --image ${image} --components "${components}" ${FOR_OLD_SERVER} dist/release`;
  return {
    [`make release ONLY=${quoted(parts)} IMAGE=${image}${named}`]: `${process.execPath} ${join(PROJECT, "tools/release.mjs")} ${words}`,
  };
}

/**
 * Somebody who follows a page: types its commands in a source tree and a home of his own, with every right on a real
 * cluster, and sees what the page shows. No kubelet is there: `startController` runs what the Deployment says.
 */
export class PageReader {
  /** The source tree, and the home. */
  readonly directory: string;
  readonly #cluster: TestCluster;
  #controller: ProductProcess | null = null;
  #commands: Readonly<Record<string, string>> = {};
  #texts: Readonly<Record<string, string>> = {};

  constructor(cluster: TestCluster) {
    this.#cluster = cluster;
    this.directory = join(cluster.directory, "tree");
    mkdirSync(join(this.directory, ".kube"), { recursive: true });
    symlinkSync(cluster.kubeconfig("admin"), join(this.directory, ".kube/config"));
    copyDeploy(this.directory);
  }

  /** Ends the controller. */
  async stop(): Promise<void> {
    await this.#controller?.end();
    this.#controller = null;
  }

  /** The controller as its Deployment has it, beside the API server; a former one ends first. Graces are short. */
  async startController(): Promise<void> {
    await this.stop();
    const { template } = (await this.#cluster.api.get(CONTROLLER)).spec;
    const args: string[] = template.spec.containers[0].args;
    const own = args.filter((one) => !/^--(metrics-address|identity)=/.test(one));
    const kubeconfig = this.#cluster.kubeconfig("holdfast-controller");
    const here = [`--kubeconfig=${kubeconfig}`, "--metrics-address=off", "--sweep-grace-seconds=1"];
    this.#controller = new ProductProcess([...own, ...here, "--sweep-interval-seconds=1"]);
  }

  /** Follows a page's steps in their order. Throws with what is seen where the page shows something else. */
  async follow(steps: readonly Step[], { commands = {}, texts = {}, acts }: Others): Promise<void> {
    this.#commands = commands;
    this.#texts = texts;
    const waiting = new Set(acts);
    for (const { typed, shown } of steps) {
      if (shown !== null && typed.split("\n").every((line) => line === "" || LOOKING.test(line)))
        await this.#untilSeen(typed, shown);
      else {
        const seen = await this.type(typed);
        if (shown !== null) expect(compared(seen), typed).toBe(compared(this.#here(shown)));
      }
      for (const one of waiting)
        if (one.after.test(typed)) {
          await one.act();
          waiting.delete(one);
        }
    }
    expect([...waiting].map(({ after }) => after)).toEqual([]);
  }

  /** Types a block; what it prints. */
  async type(block: string): Promise<string> {
    const { code, stdout, stderr } = await this.#shell(block);
    if (code !== 0) throw new Error(`${block}: code ${code}\n${stdout}${stderr}${this.#controller?.log}`);
    return stdout;
  }

  async #untilSeen(block: string, shown: string): Promise<void> {
    let seen = "";
    const isSeen = async () => {
      const { stdout, stderr } = await this.#shell(block);
      seen = stdout || stderr;
      return compared(seen) === compared(this.#here(shown));
    };
    await until(isSeen, block).catch(() => expect(compared(seen), block).toBe(compared(this.#here(shown))));
  }

  #here(shown: string): string {
    return Object.entries(this.#texts).reduce((text, [page, here]) => text.replaceAll(page, here), shown);
  }

  #shell(block: string) {
    const lines = block.replaceAll(/^kubectl .* rollout status .*$/gm, "").split("\n");
    const text = lines.map((line) => this.#commands[line] ?? line).join("\n");
    const path = `${join(PROJECT, "dist/bin")}:${process.env.PATH}`;
    const script = `cd ${this.directory} && set -euo pipefail\n${text}`;
    const env = { HOME: this.directory, PATH: path, KUBECONFIG: join(this.directory, ".kube/config") };
    return run("bash", ["-c", script], env);
  }
}

/** Without what differs each time: ages, times, identifiers, and the widths of columns. */
function compared(text: string): string {
  return text
    .replaceAll(/\b(\d+(ms|[smhd]))+\b/g, "AGE")
    .replaceAll(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b/g, "UID")
    .replaceAll(/ +/g, " ")
    .replaceAll(/ $/gm, "")
    .trim();
}

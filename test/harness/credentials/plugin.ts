import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newDirectory } from "../daemon.ts";
import { CLIENT, type OidcIssuer } from "./oidc-issuer.ts";

export interface Behaviour {
  /** Of its tokens. */
  readonly lifeSeconds: number;
  /** How long it takes; default 0. */
  readonly seconds?: number;
  /** Not 0: it fails, and says its token on standard error. */
  readonly exitCode?: number;
}

/** An executable that a kubeconfig names as its credential plug-in, and that does as it is told. */
export class Plugin {
  readonly directory = newDirectory();
  readonly command = join(this.directory, "plugin");
  readonly #issuer: OidcIssuer;

  constructor(issuer: OidcIssuer, behaviour: Behaviour) {
    this.#issuer = issuer;
    const code = readFileSync(join(import.meta.dirname, "plugin.mjs"), "utf8");
    writeFileSync(join(this.directory, "package.json"), '{"type":"module"}');
    writeFileSync(this.command, `#!${process.execPath}\n${code}`);
    chmodSync(this.command, 0o700);
    this.behave(behaviour);
  }

  /** From its next run on. */
  behave(behaviour: Behaviour): void {
    const { url, keyFile } = this.#issuer;
    const file = join(this.directory, "behaviour.json");
    writeFileSync(`${file}.new`, JSON.stringify({ ...behaviour, issuer: url, client: CLIENT, keyFile }));
    renameSync(`${file}.new`, file);
  }

  /** The `user` of a kubeconfig. */
  get user(): object {
    const { command } = this;
    return { exec: { apiVersion: "client.authentication.k8s.io/v1", command, interactiveMode: "Never" } };
  }

  /** When its runs began and ended, ms since the epoch; null: it is under way, or has failed. */
  get runs(): { readonly beginMs: number; readonly endMs: number | null; readonly pid: number }[] {
    const runs: { beginMs: number; endMs: number | null; pid: number }[] = [];
    for (const [what, when, pid] of this.#notes) {
      if (what === "begin") runs.push({ beginMs: Number(when), endMs: null, pid: Number(pid) });
      const last = runs.at(-1);
      if (what === "end" && last) last.endMs = Number(when);
    }
    return runs;
  }

  /** Every token that it made. */
  get tokens(): string[] {
    return this.#notes.flatMap(([what, token = ""]) => (what === "token" ? [token] : []));
  }

  get #notes(): string[][] {
    const file = join(this.directory, "runs.txt");
    if (!existsSync(file)) return [];
    return readFileSync(file, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => line.split(" "));
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

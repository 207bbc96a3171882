import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../harness/daemon.ts";
import { skippedFor } from "../../harness/needs.ts";

const DRIVER = join(import.meta.dirname, "drive.py");
const BOOT = join(import.meta.dirname, "boot-guest");
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "holdfast/cloud-init");

/**
 * Where cloud-init's code is: the directory that HOLDFAST_TEST_CLOUD_INIT names, the one that `fetch` fills, or
 * installed.
 */
const directory = process.env.HOLDFAST_TEST_CLOUD_INIT ?? (existsSync(CACHE) ? CACHE : null);
/** One of Debian 13, which `fetch-newer` brings: it asks over IPv6 first. What it needs is beside the older one. */
const NEWER = process.env.HOLDFAST_TEST_CLOUD_INIT_NEWER ?? (existsSync(`${CACHE}-newer`) ? `${CACHE}-newer` : null);
const packagesIn = (root: string | null) => (root === null ? [] : [join(root, "usr/lib/python3/dist-packages")]);
const envOf = (...roots: readonly (string | null)[]) => {
  const path = roots.flatMap(packagesIn).join(":");
  return path === "" ? process.env : { ...process.env, PYTHONPATH: path };
};
const env = envOf(directory);
const newerEnv = envOf(NEWER, directory);

/** Why cloud-init cannot be run here; null: it can. In CI it must. */
export function whyNoCloudInit(): string | null {
  const found = spawnSync("python3", ["-c", "import cloudinit.sources.DataSourceEc2, jsonschema"], { env });
  if (found.status === 0) return null;
  return skippedFor("no cloud-init here (test/metadata/cloud-init/fetch brings it, without installing it)");
}

/** The same of one from 24.2 on. */
export function whyNoNewerCloudInit(): string | null {
  const asked = "from cloudinit import version; print(version.version_string())";
  const found = spawnSync("python3", ["-c", asked], { env: newerEnv, encoding: "utf8" });
  const [major, minor] = found.stdout.split(".").map(Number);
  if ((major ?? 0) > 24 || (major === 24 && (minor ?? 0) >= 2)) return null;
  return skippedFor("no cloud-init of 24.2 or later here (test/metadata/cloud-init/fetch-newer brings it)");
}

/** What a data source made of a server; see drive.py. */
export interface Found {
  readonly found: boolean;
  readonly instanceId: string;
  readonly hostname: string;
  readonly keys: readonly string[];
  readonly userdata: string;
  readonly metadata: Record<string, unknown>;
  readonly zone: string;
  readonly vendordata?: string | null;
  readonly ec2?: Record<string, unknown>;
  /** Which of its own addresses answered, and which cloud-init it was: of "openstack-default". */
  readonly from?: string;
  readonly version?: string;
  readonly identity?: Record<string, unknown>;
  readonly netplan?: { readonly network: { readonly ethernets: Record<string, unknown> } } | null;
}

/** Longer than cloud-init looks for a source that does not answer. */
const BOOT_SECONDS_MAX = 240;
/** Just less than a test may take, so that a program that hangs is told with its output. */
const RUN_MS_MAX = 110_000;
/** More than thousands of documents that are read at once. */
const OUTPUT_BYTES_MAX = 1 << 26;

export interface DriveOptions {
  /** Names of its interfaces by MAC. */
  readonly macs?: Readonly<Record<string, string>>;
  /** The address it asks from, one of loopback or of a namespace. */
  readonly source?: string;
  /** The network namespace it runs in, by name; default: this one. */
  readonly namespace?: string;
  /** One of Debian 13; default: of Debian 12. */
  readonly newer?: boolean;
}

/** Runs drive.py. Throws with what it wrote to standard error when it fails. */
export function drive<T = Found>(what: string, at: readonly string[], guest: DriveOptions = {}): Promise<T> {
  const { macs = {}, source, namespace, newer = false } = guest;
  const args = [DRIVER, what, ...at, "--macs", JSON.stringify(macs)];
  if (source !== undefined) args.push("--source", source);
  const inside = namespace === undefined ? [] : ["ip", "netns", "exec", namespace];
  const [command, ...words] = [...inside, "python3", ...args] as [string, ...string[]];
  return new Promise((resolve, reject) => {
    execFile(
      command,
      words,
      { env: newer ? newerEnv : env, timeout: RUN_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX },
      (error, stdout, stderr) => {
        const late = error?.killed ? ` was not done within ${RUN_MS_MAX} ms` : "";
        if (error) reject(new Error(`drive.py ${what}${late}: ${error.message}\n${stderr}`));
        else resolve(JSON.parse(stdout) as T);
      },
    );
  });
}

/** What a boot with cloud-init made of a guest; see boot-guest. null: nothing. */
export interface Booted {
  readonly hostname: string;
  /** root's authorized_keys. */
  readonly keys: string | null;
  /** /etc/told, and what was written to /run/ran. */
  readonly written: string | null;
  readonly ran: string | null;
  readonly instance: { readonly instance_id: string; readonly platform: string } | null;
  readonly status: {
    readonly v1: { readonly datasource: string; readonly errors: readonly string[] };
  } | null;
  readonly log: string;
}

/** Boots a guest with cloud-init in a network namespace. It changes nothing of this machine. */
export async function boot(namespace: string, { newer = false } = {}): Promise<Booted> {
  const directories = [newer ? NEWER : null, directory].filter((one) => one !== null).join(":");
  const inside = ["ip", "netns", "exec", namespace, BOOT, directories];
  const { code, stdout, stderr } = await run("timeout", [String(BOOT_SECONDS_MAX), ...inside]);
  if (code !== 0) throw new Error(`boot-guest in ${namespace}: code ${code}\n${stderr}`);
  return JSON.parse(stdout) as Booted;
}

/** What PyYAML reads in each text; `{error}` where it gives up. */
export function readYaml(texts: readonly string[]): Promise<unknown[]> {
  return withTexts(texts, (file) => drive<unknown[]>("yaml", [file]));
}

/** What cloud-init makes of each network_data.json: netplan's form, or a text of why it gives up. */
export function readNetworkData(texts: readonly string[], guest: DriveOptions): Promise<unknown[]> {
  return withTexts(texts, (file) => drive<unknown[]>("network-data", [file], guest));
}

async function withTexts<T>(texts: readonly string[], use: (file: string) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-texts-"));
  try {
    writeFileSync(join(directory, "texts.json"), JSON.stringify(texts));
    return await use(join(directory, "texts.json"));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

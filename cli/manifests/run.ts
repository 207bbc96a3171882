import type { AppliedResult, ObjectDiff } from "../../admin/admin-api.ts";
import { CNI_BODY_BYTES_MAX } from "../../cni-shim/wire.ts";
import { type Clock, nextTurn } from "../../platform/time.ts";
import type { Client } from "../client.ts";
import { CommandError, EXIT } from "../failure.ts";
import { formatBytes } from "../human.ts";
import { Progress } from "../progress.ts";
import { print, printable, printError } from "../terminal.ts";
import { type ManifestFile, manifestFiles } from "./files.ts";

/** Each is made durable before the next, so that this many are answered well within the time-out. */
const BATCH_OBJECTS_MAX = 200;
/** A quarter of the daemon's limit for one request; an object that exceeds it is sent alone. */
const BATCH_BYTES_MAX = CNI_BODY_BYTES_MAX / 4;
/** Parts of a file between two turns of the event loop, in which progress is shown. */
const PARTS_PER_TURN = 500;
/** The rest of a request is the list around its objects. */
const OBJECT_BYTES_MAX = CNI_BODY_BYTES_MAX - 1024;

/** An object to be sent to the daemon, with its name for messages. */
export interface Placed {
  readonly object: unknown;
  /** `vms.yaml:14`; "" for one named on the command line. */
  readonly place: string;
}

export type PlacedResult = Placed & { readonly result: AppliedResult };

/** Unreadable parts are reported at once and set exit code 1; the rest goes on. */
export async function readManifests(
  clock: Clock,
  paths: readonly string[],
  wanted = "IPAMClaim, NetworkAttachmentDefinition, Secret and ConfigMap",
): Promise<Placed[]> {
  const placed: Placed[] = [];
  let faults = 0;
  const progress = new Progress(clock, () => `${placed.length} objects read`);
  const report = (message: string, hint: string) => {
    faults += 1;
    progress.erase();
    refuse(message, hint);
  };
  try {
    for (const path of paths) {
      const files = attempt(() => manifestFiles(path), report) ?? [];
      for (const file of files) await readFile(clock, file, placed, report);
    }
  } finally {
    progress.end();
  }
  if (placed.length === 0 && faults === 0) {
    throw new CommandError(`there is no object in ${paths.join(", ")}`, {
      hint: `expected ${wanted} manifests, as kubectl takes them`,
    });
  }
  return placed;
}

async function readFile(clock: Clock, file: ManifestFile, placed: Placed[], report: typeof refuse): Promise<void> {
  const text = await file.read().catch((error: CommandError) => report(error.message, error.hint));
  if (text === undefined) return;
  // Here, because it loads YAML, which few commands need.
  const { readManifestText } = await import("./documents.ts");
  let parts = 0;
  for (const part of readManifestText(text)) {
    if ("object" in part) placed.push({ object: part.object, place: `${file.name}:${part.line}` });
    else
      report(
        `${file.name}:${part.line}:${part.column}: ${part.problem}`,
        "this document is left out, the others are read",
      );
    parts += 1;
    if (parts % PARTS_PER_TURN === 0) await nextTurn(clock);
  }
}

/** Sends objects in order, several per request, and passes on each result as it arrives. */
export async function sendManifests(
  clock: Clock,
  client: Client,
  path: "/v1/apply" | "/v1/delete",
  placed: readonly Placed[],
  done: (result: PlacedResult) => void | Promise<void>,
): Promise<void> {
  await inBatches(clock, placed, async (batch, progress) => {
    const { results } = await client.post(path, { objects: batch.map(({ object }) => object) });
    progress.erase();
    for (const [index, result] of results.entries()) await done({ ...(batch[index] as Placed), result });
  });
}

export async function diffManifests(
  clock: Clock,
  client: Client,
  { placed, isDelete }: { readonly placed: readonly Placed[]; readonly isDelete: boolean },
  done: (result: Placed & { readonly result: ObjectDiff }) => void | Promise<void>,
): Promise<void> {
  await inBatches(clock, placed, async (batch, progress) => {
    const objects = batch.map(({ object }) => object);
    const { results } = await client.post("/v1/diff", { objects, delete: isDelete });
    progress.erase();
    for (const [index, result] of results.entries()) await done({ ...(batch[index] as Placed), result });
  });
}

/** `--dry-run`: prints what would become of each object. */
export function rehearse(clock: Clock, client: Client, placed: readonly Placed[], isDelete: boolean): Promise<void> {
  return diffManifests(clock, client, { placed, isDelete }, ({ result, ...one }) => {
    if ("error" in result) return refuseObject(one, result.error);
    print(`${resultName(result)} ${result.action} (dry run)\n`);
  });
}

export async function inBatches(
  clock: Clock,
  placed: readonly Placed[],
  send: (batch: readonly Placed[], progress: Progress) => Promise<void>,
): Promise<void> {
  let answered = 0;
  const progress = new Progress(clock, () => `${answered} of ${placed.length} objects`);
  try {
    for (const batch of batches(placed)) {
      await send(batch, progress);
      answered += batch.length;
    }
  } finally {
    progress.end();
  }
}

function* batches(placed: readonly Placed[]): Generator<Placed[]> {
  let batch: Placed[] = [];
  let bytes = 0;
  for (const one of placed) {
    const size = Buffer.byteLength(JSON.stringify(one.object));
    if (size > OBJECT_BYTES_MAX) {
      const message = `it is ${formatBytes(size)} long, and ${formatBytes(OBJECT_BYTES_MAX)} is the most that is taken`;
      refuseObject(one, {
        message,
        hint: "no object needs that much; look for what blew it up",
      });
      continue;
    }
    if (batch.length > 0 && (batch.length === BATCH_OBJECTS_MAX || bytes + size > BATCH_BYTES_MAX)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(one);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

export function refuseObject({ place, object }: Placed, { message, hint }: { message: string; hint: string }): void {
  refuse(`${place === "" ? "" : `${place}: `}${nameOf(object)}: ${message}`, hint);
}

/** `ipamclaim/default/vm1`, as the results name it. */
export function resultName({ kind, namespace, name }: Pick<AppliedResult, "kind" | "namespace" | "name">): string {
  return printable(`${kind.toLowerCase()}/${namespace}/${name}`);
}

function nameOf(object: unknown): string {
  const { kind, metadata } = (object ?? {}) as {
    kind?: unknown;
    metadata?: { namespace?: unknown; name?: unknown };
  };
  if (typeof kind !== "string") return "object";
  if (typeof metadata?.name !== "string") return kind.toLowerCase();
  return resultName({ kind, namespace: String(metadata.namespace ?? "default"), name: metadata.name });
}

/** Prints an error that does not stop the rest. */
export function refuse(message: string, hint: string): void {
  process.exitCode = EXIT.refused;
  printError(message, hint);
}

function attempt<T>(work: () => T, report: typeof refuse): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    report(error.message, error.hint);
    return undefined;
  }
}

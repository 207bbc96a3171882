import type { Command } from "commander";
import { USE_KUBECTL } from "../../admin/elsewhere.ts";
import type { AllocationView, NetworkView } from "../../allocations/records.ts";
import type { Clock } from "../../platform/time.ts";
import { splitName, withFiles } from "../arguments.ts";
import { nodeClientOf } from "../choose-client.ts";
import type { Client } from "../client.ts";
import { CommandError, EXIT } from "../failure.ts";
import { podName, shortContainerId } from "../holder.ts";
import { count } from "../human.ts";
import { CONTENT_KINDS, isContentKind } from "../manifests/content-files.ts";
import {
  type Placed,
  type PlacedResult,
  readManifests,
  refuse,
  refuseObject,
  rehearse,
  resultName,
  sendManifests,
} from "../manifests/run.ts";
import { allAllocations } from "../pages.ts";
import { errors, print, printable } from "../terminal.ts";

interface DeleteOptions {
  readonly filename?: string[];
  readonly namespace: string;
  readonly ignoreNotFound?: boolean;
  readonly yes?: boolean;
  readonly dryRun?: true;
}

export function addDelete(program: Command, clock: Clock): void {
  withFiles(program.command("delete"))
    .usage("-f <file> | claim <name> | network <name> | secret <name> | configmap <name>")
    .description("takes away claims, network definitions and content")
    .argument("[kind]", "claim, secret, configmap, or network: the applied definition of a network")
    .argument("[names...]", "networks as `holdfast networks` shows them, others as [namespace/]name")
    .option("-n, --namespace <name>", "of names without one", "default")
    .option("--ignore-not-found", "what is not there counts as deleted")
    .option("--dry-run", "show what would become of each object, and change nothing")
    .option("-y, --yes", "also what is in use, without a question")
    .addHelpText(
      "after",
      "\nA claim in use goes when its last user ends. What is allocated outlives the definition of its network.",
    )
    .action(async (kind: string | undefined, names: string[], options: DeleteOptions, command: Command) => {
      const client = nodeClientOf(command, USE_KUBECTL);
      const objects = await objectsOf(clock, client, kind, names, options, command);
      if (options.dryRun) return rehearse(clock, client, objects, true);
      if (!options.yes) {
        const uses = await usesOf(clock, client, objects);
        if (uses.length > 0) await confirm(uses);
      }
      await sendManifests(clock, client, "/v1/delete", objects, (result) => report(clock, client, result, options));
    });
}

/** Empty: nobody does. */
async function usesOf(clock: Clock, client: Client, placed: readonly Placed[]): Promise<string[]> {
  const claims = namesOf(placed, "IPAMClaim");
  const definitions = namesOf(placed, "NetworkAttachmentDefinition");
  const [only] = claims;
  // A claim is looked up, many are looked for in one reading.
  const held = only === undefined ? [] : await allAllocations(clock, client, claims.size === 1 ? { claim: only } : {});
  const inUse = new Map<string, AllocationView[]>();
  for (const one of held) {
    const name = `${one.owner.namespace}/${one.owner.name}`;
    if (one.owner.kind === "claim" && one.attachments.length > 0 && claims.has(name))
      inUse.set(name, [...(inUse.get(name) ?? []), one]);
  }
  const networks = definitions.size === 0 ? [] : (await client.get("/v1/networks")).items;
  return [
    ...[...inUse].map(
      ([name, ofClaim]) =>
        `claim ${name} is ${usersText(ofClaim)}, which cannot be taken back: no other claim of this name is accepted before`,
    ),
    ...networks
      .filter(({ source: from, attachments }) => definitions.has(from) && attachments > 0)
      .map(
        ({ name, attachments }) =>
          `network ${name} is in use by ${count(attachments, "attachment")}: they keep their addresses, and from then on the runtime's configuration counts`,
      ),
  ];
}

/** `namespace/name` of the objects of a kind. */
function namesOf(placed: readonly Placed[], wanted: string): ReadonlySet<string> {
  return new Set(
    placed.flatMap(({ object }) => {
      const { kind, metadata } = (object ?? {}) as {
        kind?: unknown;
        metadata?: { namespace?: unknown; name?: unknown };
      };
      return kind === wanted ? [`${metadata?.namespace ?? "default"}/${metadata?.name}`] : [];
    }),
  );
}

async function objectsOf(
  clock: Clock,
  client: Client,
  kind: string | undefined,
  names: readonly string[],
  options: DeleteOptions,
  command: Command,
): Promise<Placed[]> {
  if ((kind === undefined) === (options.filename === undefined)) {
    command.error("error: either -f <file>, or a kind and names are needed, such as: delete claim default/vm1");
  }
  if (options.filename !== undefined) return readManifests(clock, options.filename);
  if (kind === undefined || (kind !== "claim" && kind !== "network" && !isContentKind(kind)))
    command.error(`error: "${kind}" cannot be deleted; claim, network, secret and configmap can`);
  if (names.length === 0) command.error(`error: the name of a ${kind} is needed`);
  if (kind !== "network") {
    const full = kind === "claim" ? "IPAMClaim" : CONTENT_KINDS[kind];
    return names.map((name) => objectNamed(full, name, options.namespace));
  }
  const placed: Placed[] = [];
  for (const name of names) {
    await definitionsOf(client, name, options).then(
      (found) => placed.push(...found),
      (error: unknown) => {
        if (!(error instanceof CommandError) || error.exitCode !== EXIT.refused) throw error;
        refuse(error.message, error.hint);
      },
    );
  }
  return placed;
}

function objectNamed(kind: string, text: string, defaultNamespace: string): Placed {
  return { place: "", object: { kind, metadata: splitName(text, defaultNamespace) } };
}

async function definitionsOf(client: Client, network: string, { ignoreNotFound }: DeleteOptions): Promise<Placed[]> {
  const found = await client.get(`/v1/networks/${encodeURIComponent(network)}`).catch((error: unknown) => {
    if (ignoreNotFound && error instanceof CommandError && error.code === "NOT_FOUND") return null;
    throw error;
  });
  if (found === null) return [];
  if (!found.source.includes("/")) {
    throw new CommandError(`network ${network} has no applied definition to delete; ${source(found)}`, {
      hint: "only what holdfast apply -f gave can be deleted",
    });
  }
  const metadata = splitName(found.source, undefined);
  return [{ place: "", object: { kind: "NetworkAttachmentDefinition", metadata } }];
}

function source({ source: from }: NetworkView): string {
  return from === "runtime"
    ? "the container runtime's configuration defines it"
    : "nobody defines it any more, it still holds addresses";
}

async function report(
  clock: Clock,
  client: Client,
  { result, ...placed }: PlacedResult,
  options: DeleteOptions,
): Promise<void> {
  if ("error" in result) {
    if (result.error.code === "NOT_FOUND" && options.ignoreNotFound) return;
    return refuseObject(placed, result.error);
  }
  if (result.action !== "terminating") return print(`${resultName(result)} ${result.action}\n`);
  const held = await allAllocations(clock, client, { claim: `${result.namespace}/${result.name}` });
  print(`${resultName(result)} terminating: ${usersText(held)}\n`);
}

function usersText(held: readonly AllocationView[]): string {
  const users = held[0]?.attachments ?? [];
  const ends = users.map(({ pod, containerID, interface: name }) => {
    const container = `container ${shortContainerId(containerID)} (${name})`;
    return pod === null ? container : `pod ${podName(pod)}, ${container}`;
  });
  const addresses = held.map(({ address }) => address).join(", ");
  return printable(
    `in use by ${ends.join(" and ") || "its last attachment"}; it goes with its addresses (${addresses}) when that ends`,
  );
}

/**
 * Asks on a terminal whether to go on. Without one nobody could answer: refused with the hint `--yes`, so that a script
 * neither waits for ever nor takes what it did not mean (docs/decisions/0061).
 */
async function confirm(what: readonly string[]): Promise<void> {
  const text = what.map((line) => `${printable(line)}\n`).join("");
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new CommandError(`nothing is deleted: ${what.join("; ")}`, {
      hint: "with --yes it is deleted without a question",
    });
  }
  errors().write(text);
  const { createInterface } = await import("node:readline/promises");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question("Delete? [y/N] ");
    if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError("nothing is deleted");
  } finally {
    lines.close();
  }
}

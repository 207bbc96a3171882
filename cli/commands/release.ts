import type { Command } from "commander";
import { MACHINES_ONLY } from "../../admin/elsewhere.ts";
import type { Clock } from "../../platform/time.ts";
import { addressArgument } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import type { Client } from "../client.ts";
import { CommandError, EXIT } from "../failure.ts";
import { allAllocations } from "../pages.ts";
import { print, printable, printError } from "../terminal.ts";

interface Options {
  readonly network?: string;
  readonly moved?: string;
  readonly force?: boolean;
  readonly dryRun?: boolean;
}

export function addRelease(program: Command, clock: Clock): void {
  program
    .command("release")
    .description("takes back an address that is held by mistake")
    .usage("[options] <address> | --moved <namespace/cluster>")
    .argument("[address]", "in any spelling, bare or with its prefix length", addressArgument)
    .option("--network <name>", "needed when more than one network has the address")
    .option(
      "--moved <cluster>",
      "everything held for machines of this cluster of Cluster API (namespace/name), which is not here any more",
    )
    .option("--dry-run", "only shows what would be released")
    .option("--force", "also when it is in use or claimed, with everything its holder has on this network")
    .action(async (address: string | undefined, options: Options, command: Command) => {
      const { moved } = options;
      if ((address === undefined) === (moved === undefined))
        command.error("error: expected either an address, or --moved <namespace/cluster>");
      if (moved !== undefined) await releaseCluster(moved, options, command);
      else await releaseAddress(clock, address as string, options, command);
    });
}

async function releaseAddress(clock: Clock, address: string, options: Options, command: Command): Promise<void> {
  const client = clientOf(command);
  const network = options.network ?? (await onlyNetworkOf(clock, client, address));
  const { force = false, dryRun = false } = options;
  const { addresses, holder } = await client
    .post("/v1/release", { address, network, force, dryRun })
    .catch(mentionForce);
  for (const one of addresses) print(`${one} ${releasedText(network, holder, dryRun)}\n`);
}

async function releaseCluster(cluster: string, options: Options, command: Command): Promise<void> {
  if (options.network !== undefined) command.error("error: --network goes with an address only");
  const client = clientOf(command);
  if (client.kind === "node") command.error(`error: --moved is about machines of a cluster\nhint: ${MACHINES_ONLY}`);
  const { force = false, dryRun = false } = options;
  const { released, kept } = await client.post("/v1/release-moved", { cluster, force, dryRun }).catch(mentionForce);
  for (const { address, network, holder } of released) print(`${address} ${releasedText(network, holder, dryRun)}\n`);
  for (const { address, network, why = "" } of kept) printError(`${address} on network ${network} is kept: ${why}`, "");
  if (kept.length > 0) process.exitCode = EXIT.refused;
}

function releasedText(network: string, holder: string, dryRun: boolean): string {
  const [done, is] = dryRun ? ["would be released", "is"] : ["released", "was"];
  return `${done} on network ${network}, ${is} held by ${printable(holder)}`;
}

async function onlyNetworkOf(clock: Clock, client: Client, address: string): Promise<string> {
  const networks = (await allAllocations(clock, client, { address })).map(({ network }) => network);
  const [first] = networks;
  if (first === undefined) {
    throw new CommandError(`nobody holds ${address}, so there is nothing to release`, {
      hint: `holdfast history ${address} shows who had it`,
    });
  }
  if (networks.length > 1) {
    throw new CommandError(`${address} is held on ${networks.length} networks: ${networks.join(", ")}`, {
      hint: `name the one that is meant: holdfast release ${address} --network ${first}`,
      exitCode: EXIT.usage,
    });
  }
  return first;
}

/** The API's hint does not know the command line's option. */
function mentionForce(error: unknown): never {
  if (!(error instanceof CommandError) || error.code !== "IN_USE") throw error;
  throw new CommandError(error.message, {
    code: error.code,
    hint: `${error.hint}. --force releases it anyway: the current user keeps running with an address that can be given to someone else`,
  });
}

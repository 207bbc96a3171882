import type { Command } from "commander";
import type { Clock } from "../../platform/time.ts";
import { allAllocations } from "../allocations.ts";
import { addressArgument } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import type { Client } from "../client.ts";
import { CommandError, EXIT } from "../failure.ts";
import { print, printable } from "../terminal.ts";

/** `holdfast release ADDRESS`: releases an address that nothing else would release. */
export function addRelease(program: Command, clock: Clock): void {
  program
    .command("release")
    .description("takes back an address that is held by mistake")
    .argument("<address>", "in any spelling, bare or with its prefix length", addressArgument)
    .option("--network <name>", "needed when more than one network has the address")
    .option("--force", "also when it is in use or claimed, with everything its holder has on this network")
    .action(async (address: string, options: { network?: string; force?: boolean }, command: Command) => {
      const client = clientOf(command);
      const network = options.network ?? (await onlyNetworkOf(clock, client, address));
      const force = options.force === true;
      const { addresses, holder } = await client
        .post("/v1/release", { address, network, force })
        .catch(mentionForce);
      for (const one of addresses)
        print(`${one} released on network ${network}, was held by ${printable(holder)}\n`);
    });
}

async function onlyNetworkOf(clock: Clock, client: Client, address: string): Promise<string> {
  const networks = (await allAllocations(clock, client, { address })).map(({ network }) => network);
  const [first] = networks;
  if (first === undefined) {
    throw new CommandError(`nobody holds ${address}, so there is nothing to release`, {
      hint: `holdfast history ${address} tells who had it`,
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
    hint: `${error.hint}. With --force it is taken all the same, and whoever uses it goes on without a right to it`,
  });
}

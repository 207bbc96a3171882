import type { Chance } from "../../engine/chance.ts";
import type { ActionKinds, World } from "../../world.ts";
import { guestsOf } from "./guests.ts";

/** What guests do, and what becomes of what answers them. */
export const GUEST_KINDS: ActionKinds = {
  "guest-asks-who": { weight: 3, run: (world, chance) => anyone(world, chance, "attachment") },
  "guest-asks-by-address": { weight: 1, run: (world, chance) => anyone(world, chance, "address") },
  "guest-reads-document": { weight: 2, run: (world, chance) => reads(world, chance) },
  "guests-of-node-ask": { weight: 0.5, run: (world, chance) => everybodyOn(world, chance) },
  "metadata-server-crash": { weight: 0.3, run: (world, chance) => crash(world, chance) },
};

/** What must be counted in a long run. */
export const GUESTS_OWED: readonly string[] = [
  "metadata.answered",
  "metadata.asked-by-address",
  "metadata.asked-by-attachment",
  "metadata.away",
  "metadata.document-200",
  "metadata.during-end",
  "metadata.during-migration",
  "metadata.identity.remembered",
  "metadata.server-crash",
];

async function anyone(world: World, chance: Chance, by: "attachment" | "address"): Promise<void> {
  const guests = guestsOf(world);
  const guest = chance.of(guests.all());
  if (guest !== undefined) await guests.whoAmI(guest.machine, guest.one, by);
}

async function reads(world: World, chance: Chance): Promise<void> {
  const guests = guestsOf(world);
  const guest = chance.of(guests.all());
  if (guest !== undefined) await guests.whatAmI(guest.machine, guest.one);
}

async function everybodyOn(world: World, chance: Chance): Promise<void> {
  const guests = guestsOf(world);
  const machine = chance.of(world.machines.filter(({ interfaces }) => interfaces.size > 0));
  if (machine === undefined) return;
  const asked = [...machine.interfaces.keys()].map((one) => guests.whoAmI(machine, one, "attachment"));
  await Promise.all(asked);
}

function crash(world: World, chance: Chance): void {
  const machine = chance.of(world.machines);
  if (machine === undefined) return;
  world.counts.add("metadata.server-crash");
  guestsOf(world).nodeOf(machine).kill();
}

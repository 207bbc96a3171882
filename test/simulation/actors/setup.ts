import { tellClaimWrites } from "../cluster/claim-writes.ts";
import type { Chance } from "../engine/chance.ts";
import type { World } from "../world.ts";
import { setUpGuests } from "./guests/guests.ts";
import { startKubeVirt } from "./kubevirt/kubevirt.ts";
import { setUpMachines } from "./machines/setup.ts";
import { putNetworks } from "./people/networks.ts";
import { keepPeace } from "./people/peace.ts";
import { startLateNetwork } from "./pods/late-networks.ts";
import { startNodeLifecycle } from "./pods/node-lifecycle.ts";

/** What is there in the beginning, and who acts by itself from then on. */
export async function setUp(world: World, _chance: Chance): Promise<void> {
  tellClaimWrites(world);
  startKubeVirt(world);
  startNodeLifecycle(world);
  startLateNetwork(world);
  keepPeace(world);
  await putNetworks(world);
  await setUpMachines(world);
  setUpGuests(world);
}

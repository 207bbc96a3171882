import type { NetworkFacts } from "../../identity/compose.ts";

/** What a daemon adds to an identity from a network's definition, where it has seen none. */
export const NO_FACTS: NetworkFacts = {
  definition: () => undefined,
  dns: () => ({}),
  mtu: () => null,
  mac: () => null,
  routes: () => [],
};

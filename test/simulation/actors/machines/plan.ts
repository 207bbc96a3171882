import { numberOf } from "../../engine/chance.ts";

/** The versions of Cluster API's address claims that worlds have. */
export type IpamVersion = "v1beta1" | "v1beta2";

/** How a world has Cluster API and machine data. */
export interface MachinePlan {
  /** The version of IPAddressClaim that is served first. */
  readonly version: IpamVersion;
  /** Served from the beginning; else somebody installs it later. */
  readonly fromTheBeginning: boolean;
  /** The controllers serve Metal3's data kinds themselves. Else they are CAPM3's. */
  readonly ownData: boolean;
}

/** What the seed decides about machines, before the world begins: the controllers' settings depend on it. */
export function machinePlan(seed: number): MachinePlan {
  return {
    version: numberOf(seed, "machines: version") < 0.5 ? "v1beta2" : "v1beta1",
    fromTheBeginning: numberOf(seed, "machines: from the beginning") < 0.75,
    // In every world: what it does must be seen in each long run.
    ownData: true,
  };
}

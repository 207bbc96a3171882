import { type ControllerSettings, loadControllerSettings } from "../../../controller/settings.ts";
import { machinePlan } from "../actors/machines/plan.ts";

/** In place of a kubeconfig's path: the connection is handed over. */
const HANDED_OVER = "handed over";

/** A simulated controller has short graces, so that much happens in little time, and listens nowhere. */
export function controllerSettings(identity: string, seed: number): ControllerSettings {
  const flags = {
    kubeconfig: HANDED_OVER,
    identity,
    metricsAddress: "off",
    sweepIntervalSeconds: 5,
    sweepGraceSeconds: 10,
    coolingKeepSeconds: 10,
    podGoneReleaseSeconds: 30,
    clusterGoneReleaseSeconds: 60,
    machineData: machinePlan(seed).ownData ? "own" : "off",
  };
  return loadControllerSettings(flags, {});
}

import { kubeconfigFile } from "../platform/settings/cluster.ts";
import type { CONTROLLER_SETTINGS } from "../platform/settings/controller.ts";
import { type Environment, type Given, loadSettings } from "../platform/settings/load.ts";
import type { ValuesOf } from "../platform/settings/setting.ts";

const NAMESPACE_DEFAULT = "holdfast-system";

/** The values of platform/settings/controller.ts, and what is derived from them. */
export interface ControllerSettings
  extends Omit<ValuesOf<typeof CONTROLLER_SETTINGS>, "kubeconfig" | "namespace" | "identity"> {
  /** null: as a pod of the cluster. */
  readonly kubeconfig: string | null;
  readonly namespace: string;
  /** null: a unique one. */
  readonly identity: string | null;
}

/** Flags win over the environment. Throws SettingsError. */
export function loadControllerSettings(flags: Given, env: Environment): ControllerSettings {
  const { kubeconfig, namespace, identity, ...rest } = loadSettings("controller", flags, env).values;
  return {
    ...rest,
    kubeconfig: kubeconfigFile(kubeconfig),
    namespace: namespace ?? (env.POD_NAMESPACE || NAMESPACE_DEFAULT),
    identity: identity ?? null,
  };
}

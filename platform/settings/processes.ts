/*
 * platform/settings/: the settings as data, from which everything else about them is derived
 *
 *   processes                                   the four processes, each with its settings
 *   daemon, controller, metadata, metadata-net  the settings; common: those of several processes
 *   setting                                     a setting's type, flag, variable and default
 *   load                                        flags over variables over the file (config-file), and refusals
 *   cluster                                     the values of a kubeconfig setting
 */

import { CONTROLLER_SETTINGS } from "./controller.ts";
import { CONFIG_FILE_DEFAULT, DAEMON_SETTINGS } from "./daemon.ts";
import { METADATA_SETTINGS } from "./metadata.ts";
import { METADATA_NET_SETTINGS } from "./metadata-net.ts";
import type { Settings } from "./setting.ts";

/**
 * The processes that run until a signal ends them, each with its settings: the command line, the docs and the loader
 * read this table. A variable of one process is ignored by the others, a misspelt one is refused by all.
 */
export const PROCESSES = {
  daemon: {
    description: "serves this node until SIGTERM",
    settings: DAEMON_SETTINGS,
    configFile: CONFIG_FILE_DEFAULT,
  },
  controller: {
    description: "frees what nobody holds any more in a Kubernetes cluster, until SIGTERM",
    settings: CONTROLLER_SETTINGS,
  },
  metadata: {
    description: "answers guests at 169.254.169.254, behind the listeners of this node, until SIGTERM",
    settings: METADATA_SETTINGS,
  },
  "metadata-net": {
    description: "makes 169.254.169.254 reachable for this node's VMs, until SIGTERM; needs root",
    settings: METADATA_NET_SETTINGS,
  },
} as const satisfies Readonly<Record<string, Process>>;

export interface Process {
  /** One line of `holdfast --help`. */
  readonly description: string;
  readonly settings: Settings;
  /** A YAML file with the same settings by name, if the process reads one; `config` names another. */
  readonly configFile?: string;
}

/** The command of holdfast, and the name of its bundle. */
export type ProcessName = keyof typeof PROCESSES;

/** Names another file of settings: as a flag and as a variable, not in the file. */
export const CONFIG = "config";

import { join } from "node:path";
import { type Command, Option } from "commander";
import { CONFIG, PROCESSES, type Process, type ProcessName } from "../../platform/settings/processes.ts";
import { defaultOf, flagOf, type Setting } from "../../platform/settings/setting.ts";
import type { Clock } from "../../platform/time.ts";
import { loadBundle } from "../load-bundle.ts";
import { addProbeOptions, changeRules, type ProbeBundle, printProbe } from "../probe.ts";

interface ProcessBundle {
  run(flags: Readonly<Record<string, unknown>>): Promise<number>;
}

/** Options of every command that are settings, too. */
type Everywhere = Readonly<{ socket?: string; kubeconfig?: string }>;

/** The placeholder of a value in `--help`, unless the setting has its own. */
const PLACEHOLDERS: Readonly<Record<Exclude<Setting["type"], "choice" | "number">, string>> = {
  name: "name",
  file: "file",
  directory: "directory",
  socket: "path",
  group: "group",
  url: "url",
  files: "path,path",
  directories: "directory,directory",
  address: "host:port",
};

/** The code of each is a bundle of its own, loaded only here. */
export function addProcess(name: ProcessName): (program: Command, clock: Clock) => void {
  const { description, settings, configFile }: Process = PROCESSES[name];
  return (program, clock) => {
    const command = program.command(name).description(description);
    // Their settings are many, and the start of every other command is quicker without them.
    program.hook("preSubcommand", (_program, chosen) => {
      if (chosen !== command) return;
      if (configFile !== undefined)
        command.option(`--${CONFIG} <file>`, `settings in YAML (default: ${configFile} where that exists)`);
      for (const [key, setting] of Object.entries(settings))
        if (key !== "socket") command.addOption(optionOf(key, setting));
      if (name === "metadata-net") addProbeOptions(command);
    });
    command
      .addHelpText("after", `\n${helpOnSources(configFile)}`)
      .action(async ({ probe, remove, close, output, ...flags }: Record<string, unknown>) => {
        const { socket, kubeconfig } = command.optsWithGlobals<Everywhere>();
        const everywhere = Object.entries({ socket, kubeconfig }).filter(
          ([key, value]) => value !== undefined && key in settings,
        );
        const bundle = loadBundle(join(import.meta.dirname, `../lib/${name}.cjs`)) as ProcessBundle & ProbeBundle;
        const given = { ...flags, ...Object.fromEntries(everywhere) };
        if (probe === true) process.exitCode = await printProbe(bundle, given, { command, clock });
        else if (remove === true) process.exitCode = await changeRules(bundle.remove, given, clock);
        else if (close === true) process.exitCode = await changeRules(bundle.close, given, clock);
        else process.exitCode = await bundle.run(given);
      });
  };
}

function optionOf(name: string, setting: Setting): Option {
  const standard = defaultOf(setting);
  return new Option(
    `${flagOf(name)} <${placeholderOf(setting)}>`,
    standard === "" ? setting.meaning : `${setting.meaning} (default: ${standard})`,
  ).hideHelp(setting.hidden ?? false);
}

function placeholderOf(setting: Setting): string {
  if (setting.placeholder !== undefined) return setting.placeholder;
  if (setting.type === "choice") return setting.values.join("|");
  return setting.type === "number" ? setting.unit : PLACEHOLDERS[setting.type];
}

function helpOnSources(configFile: string | undefined): string {
  return configFile === undefined
    ? "Every setting is also a variable (HOLDFAST_LOG_LEVEL=debug). Flags win over variables."
    : "Every setting is also a key of the file (logLevel: debug) and a variable (HOLDFAST_LOG_LEVEL=debug).\nFlags win over variables, variables over the file.";
}

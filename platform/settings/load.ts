import { HOST_PORT_EXPECTED, type HostPort, isHostPort, parseHostPort } from "../host-port.ts";
import { CONFIG, PROCESSES, type Process, type ProcessName } from "./processes.ts";
import { type Setting, type Settings, type ValuesOf, variableOf } from "./setting.ts";

export type Environment = Readonly<Record<string, string | undefined>>;
/** The values of one source, by name of the setting. */
export type Given = Readonly<Record<string, unknown>>;

/** Not settings: test hooks, what Kubernetes sets for a Service called holdfast, and the plugin binary's own. */
const FOREIGN = /^HOLDFAST_(SHIM_.*|KILL_POINT|TEST_.*|(.*_)?SERVICE_(HOST|PORT.*)|(.*_)?PORT(_.*)?)$/;

/** Variables of all processes by name, with their settings. */
const VARIABLES: ReadonlyMap<string, string> = new Map(
  [CONFIG, ...Object.values(PROCESSES).flatMap(({ settings }) => Object.keys(settings))].map((name) => [
    variableOf(name),
    name,
  ]),
);

/** A setting that cannot be used; the message names it, its value and its source. */
export class SettingsError extends Error {}

export interface Loaded<S extends Settings> {
  readonly values: ValuesOf<S>;
  /** For a value that has the right form but cannot be used: its source, and why not. */
  refused(name: keyof S & string, why: string): SettingsError;
}

/** Flags win over the environment, which wins over `file`. Throws SettingsError: setting, value and source. */
export function loadSettings<Name extends ProcessName>(
  name: Name,
  flags: Given,
  env: Environment,
  file?: { readonly path: string; readonly content: Given },
): Loaded<(typeof PROCESSES)[Name]["settings"]> {
  const { settings }: Process = PROCESSES[name];
  const sources: (readonly [source: string, given: Given])[] = [
    ["environment", fromEnvironment(env, Object.keys(settings))],
    ["command line", flags],
  ];
  if (file !== undefined) sources.unshift([file.path, file.content]);
  for (const [source, given] of sources) {
    const unknown = Object.keys(given).find((key) => !Object.hasOwn(settings, key));
    if (unknown !== undefined) throw unknownSetting(source, unknown, Object.keys(settings));
  }
  const merged: Given = Object.assign({}, ...sources.map(([, given]) => given));
  const refused = (key: string, why: string) => {
    const source = sources.findLast(([, given]) => key in given)?.[0] ?? "default";
    return settingRefused(source, { key, value: merged[key] }, why);
  };
  const values: Record<string, SettingValue | undefined> = {};
  for (const [key, setting] of Object.entries<Setting>(settings)) {
    const given = merged[key] === undefined ? setting.default : merged[key];
    if (given === undefined) continue;
    const value = readValue(setting, given);
    if (value === undefined) throw refused(key, expected(setting));
    values[key] = value;
  }
  return { values: values as ValuesOf<(typeof PROCESSES)[Name]["settings"]>, refused };
}

/** Throws SettingsError for a HOLDFAST_ variable that no process has: a misspelt setting must not go unnoticed. */
function fromEnvironment(env: Environment, own: readonly string[]): Given {
  const given: Record<string, unknown> = {};
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith("HOLDFAST_") || value === undefined || FOREIGN.test(variable)) continue;
    const name = VARIABLES.get(variable.toUpperCase());
    if (name === undefined) throw unknownSetting("environment", variable, own.map(variableOf));
    if (own.includes(name)) given[name] = value;
  }
  return given;
}

function unknownSetting(source: string, name: string, known: readonly string[]): SettingsError {
  return new SettingsError(`${source}: unknown setting ${name}; known are ${known.join(", ")}`);
}

type SettingValue = string | number | readonly string[] | HostPort | null;

/** The value of a setting as given: text of a flag or variable, or a YAML value. undefined: it is invalid. */
function readValue(setting: Setting, given: unknown): SettingValue | undefined {
  switch (setting.type) {
    case "number": {
      const value = Number(given);
      return Number.isInteger(value) && value >= setting.min && value <= setting.max ? value : undefined;
    }
    case "choice":
      return setting.values.find((value) => value === given);
    case "address":
      if (typeof given !== "string") return undefined;
      if (setting.orOff && given === "off") return null;
      return isHostPort(given) ? parseHostPort(given) : undefined;
    case "files":
    case "directories":
      return pathsOf(given);
    default: {
      const text = setting.type === "group" && typeof given === "number" ? String(given) : given;
      return typeof text === "string" && (text !== "" || setting.orEmpty) ? text : undefined;
    }
  }
}

function pathsOf(given: unknown): string[] | undefined {
  const paths: unknown = typeof given === "string" ? given.split(",").map((one) => one.trim()) : given;
  if (!Array.isArray(paths) || paths.length === 0) return undefined;
  return paths.every((path) => typeof path === "string" && path.startsWith("/")) ? paths : undefined;
}

function expected(setting: Setting): string {
  switch (setting.type) {
    case "number":
      return `expected a whole number from ${setting.min} to ${setting.max}`;
    case "choice":
      return `expected ${setting.values.slice(0, -1).join(", ")} or ${setting.values.at(-1)}`;
    case "address":
      return `${HOST_PORT_EXPECTED}${setting.orOff ? ", or off" : ""}`;
    case "files":
    case "directories":
      return "expected absolute paths, with commas between them";
    default:
      return "expected a string that is not empty";
  }
}

function settingRefused(
  source: string,
  { key, value }: { readonly key: string; readonly value: unknown },
  remedy: string,
): SettingsError {
  return new SettingsError(`${source}: ${key} is ${JSON.stringify(value) ?? "absent"}: ${remedy}`);
}

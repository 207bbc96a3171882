import { RefusalError } from "../refusals.ts";
import {
  invalid,
  isGiven,
  isObject,
  PERSISTENCE_KEY,
  PLUGIN_TYPE,
  parseConfiguration,
  requireEqual,
  TOP_LEVEL_KEYS,
} from "./definition-keys.ts";
import type { NetworkDefinition } from "./network-definition.ts";
import { isNetworkName, parsePluginConfig } from "./plugin-config.ts";
import type { Configuration } from "./read-keys.ts";

/** Longest `spec.config` that is read, characters: ten thousand excluded subnets. Every daemon reads each change. */
export const NAD_CONFIG_CHARS_MAX = 1 << 18;

/** The network that a NetworkAttachmentDefinition defines. See docs/decisions/0056. */
export interface NadConfig {
  /** The configuration's name; without one the NAD's, as Multus and the multi-network standard (3.4.2) infer it. */
  readonly network: string;
  readonly definition: NetworkDefinition;
}

/**
 * Reads the `spec.config` of one of our NetworkAttachmentDefinitions: a single plugin configuration, or a list with a
 * plugin of our `ipam.type`. Throws RefusalError CONFIG_UNREADABLE for anything but a JSON object, else CONFIG_INVALID,
 * also when none of its plugins is ours.
 */
export function parseNadConfig(text: string, objectName: string): NadConfig {
  if (text.length > NAD_CONFIG_CHARS_MAX) tooLong(text);
  return read(parseConfiguration(text), objectName);
}

/** The same for any: null when the network is not ours, or the text is empty, as a file on the nodes has it. */
export function parseNadConfigIfOurs(text: string, objectName: string): NadConfig | null {
  if (text.trim() === "") return null;
  if (text.length > NAD_CONFIG_CHARS_MAX) {
    if (text.includes(PLUGIN_TYPE)) tooLong(text);
    return null;
  }
  const conf = parseConfiguration(text);
  const plugins: readonly unknown[] = Array.isArray(conf.plugins) ? conf.plugins : [conf];
  return plugins.some(isOurs) ? read(conf, objectName) : null;
}

/** The network of a definition, even if the rest of its `spec.config` is invalid; null: it has none. */
export function networkNameIn(text: string, objectName: string): string | null {
  if (text.length > NAD_CONFIG_CHARS_MAX) return null;
  try {
    const { name } = named(parseConfiguration(text), objectName);
    return typeof name === "string" && isNetworkName(name) ? name : null;
  } catch (error) {
    if (error instanceof RefusalError) return null;
    throw error;
  }
}

/** For a message about a network whose name nobody wrote; "" where the valid `spec.config` has one. */
export function nameOrigin(text: string): string {
  return text.trim() !== "" && networkNameIn(text, "") === null
    ? " (its spec.config has no name, so its network has the object's name)"
    : "";
}

function named(conf: Configuration, objectName: string): Configuration {
  return isGiven(conf.name) ? conf : { ...conf, name: objectName };
}

/** Our plugin in a configuration, single or a list, with the list's keys; null: there is none that can be read. */
export function pluginConfIn(text: string): Configuration | null {
  if (text.length > NAD_CONFIG_CHARS_MAX) return null;
  try {
    return pluginOf(parseConfiguration(text));
  } catch (error) {
    if (error instanceof RefusalError) return null;
    throw error;
  }
}

function tooLong({ length }: string): never {
  invalid(
    { key: "spec.config", value: `${length} characters` },
    `at most ${NAD_CONFIG_CHARS_MAX} characters are read; exclude or reserve larger subnets in place of many small ones`,
  );
}

function read(unnamed: Configuration, objectName: string): NadConfig {
  const conf = named(unnamed, objectName);
  const definition = parsePluginConfig(pluginOf(conf));
  const notes = [...definition.notes];
  if (definition.allowPersistentIPs && !isGiven(conf[PERSISTENCE_KEY])) notes.push(PERSISTENCE_HIDDEN);
  if (definition.allowPersistentIPs && conf !== unnamed) notes.push(PERSISTENCE_UNNAMED);
  return { network: definition.name, definition: { ...definition, notes } };
}

const PERSISTENCE_HIDDEN =
  "allowPersistentIPs stands in a plugin of the list: KubeVirt's controller reads it at the list's top level only, beside name";

/** `Network: nadConfig.Name` in kubevirt/ipam-extensions, without the inference. */
const PERSISTENCE_UNNAMED =
  "allowPersistentIPs without a name in spec.config: KubeVirt's controller writes that name into its claims, which are of no network then: write name";

function pluginOf(conf: Configuration): Configuration {
  return conf.plugins === undefined ? conf : pluginOfList(conf);
}

function isOurs(plugin: unknown): plugin is Configuration {
  return isObject(plugin) && isObject(plugin.ipam) && plugin.ipam.type === PLUGIN_TYPE;
}

/**
 * Our plugin of a list, with the keys that the list sets for all plugins. libcni passes the list's name and version to
 * each plugin but none of its other keys, so they are merged here.
 */
function pluginOfList(list: Configuration): Configuration {
  if (!Array.isArray(list.plugins)) invalid({ key: "plugins", value: list.plugins }, "expected a list");
  const [plugin, second] = list.plugins.filter(isOurs);
  if (plugin === undefined) {
    invalid({ key: "plugins", value: list.plugins }, `none of them has ipam.type "${PLUGIN_TYPE}"`);
  }
  if (second !== undefined) {
    invalid({ key: "plugins", value: list.plugins }, `one plugin of a list may have ipam.type "${PLUGIN_TYPE}"`);
  }
  const merged: { -readonly [Key in keyof Configuration]: unknown } = {
    ...plugin,
    name: list.name,
    cniVersion: list.cniVersion,
  };
  for (const key of TOP_LEVEL_KEYS) {
    if (!isGiven(list[key])) continue;
    if (isGiven(plugin[key]) && !requireEqual(plugin[key], list[key])) {
      invalid({ key, value: list[key] }, `the plugin ${JSON.stringify(plugin.type)} of the list says otherwise`);
    }
    merged[key] = list[key];
  }
  return merged;
}

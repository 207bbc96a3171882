import { CNI_VERSIONS, type CniWireRequest } from "../cni-shim/wire.ts";
import { isGiven, isObject, parsePassed } from "../ipam/definition/definition-keys.ts";
import type { NetworkDefinition } from "../ipam/definition/network-definition.ts";
import { isNetworkName, parsePluginConfig } from "../ipam/definition/plugin-config.ts";
import type { Configuration } from "../ipam/definition/read-keys.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";
import type { Stamp } from "../ipam/stamp.ts";
import type { Machine } from "../platform/machine.ts";

export interface PluginConfig {
  readonly text: string;
  readonly conf: Configuration;
  readonly cniVersion: string;
}

export interface DefinedConfig extends PluginConfig {
  readonly definition: NetworkDefinition;
}

/** Configurations remembered: those of one node's networks, and some more for what a runtime adds per container. */
const REMEMBERED_MAX = 256;
/** Their total size, characters: one with ten thousand excludes has 200 kB and takes a tenth of a second to parse. */
const REMEMBERED_CHARS_MAX = 4 * 1024 * 1024;
/**
 * Of a longer one only the text and the definition are remembered, and the rest is parsed when it is asked for: values
 * take many times the memory of their text, and a NAD's owner writes whatever they like beside what Holdfast reads.
 */
const PARSED_CHARS_MAX = 2_048;

/** A container ID as the CNI specification allows it. */
const CONTAINER_ID = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

/** The plugin binary has checked it already; it is checked again here. Throws RefusalError ENVIRONMENT_INVALID. */
export function readWireRequest(body: unknown): CniWireRequest {
  const wire = body as CniWireRequest;
  const strings = ["command", "containerId", "netns", "netnsId", "ifname", "args", "bootId", "config"] as const;
  if (typeof body !== "object" || body === null) invalid("the body of POST /cni is not an object");
  for (const key of strings) if (typeof wire[key] !== "string") invalid(`${key} of POST /cni is not a string`);
  if (!Number.isSafeInteger(wire.bootUs) || wire.bootUs < 0) invalid("bootUs of POST /cni is not a whole number");
  if (!["ADD", "DEL", "CHECK", "GC", "STATUS"].includes(wire.command)) invalid(`unknown CNI_COMMAND: ${wire.command}`);
  if (wire.command !== "GC" && wire.command !== "STATUS") {
    if (!CONTAINER_ID.test(wire.containerId)) invalid("invalid characters in containerID");
    if (wire.ifname === "") invalid("required env variables [CNI_IFNAME] missing");
  }
  return wire;
}

/** The stamp of a request that has just arrived: it belongs to the present boot, whatever it says. */
export function stampOfLive({ machine }: { readonly machine: Pick<Machine, "bootId"> }, wire: CniWireRequest): Stamp {
  return { bootId: machine.bootId, us: wire.bootUs };
}

/** Its ranges are not validated. Throws RefusalError CONFIG_UNREADABLE or VERSION_UNSUPPORTED. */
export function readConfig(text: string, verb: string, since: string): PluginConfig {
  const conf = parsePassed(text);
  // Go programs write an unset version as "".
  const cniVersion = isGiven(conf.cniVersion) ? conf.cniVersion : "0.1.0";
  if (typeof cniVersion !== "string") {
    throw new RefusalError(
      refuse("CONFIG_UNREADABLE", {
        problem: `cniVersion is ${JSON.stringify(cniVersion)}: expected a string, such as "1.0.0"`,
      }),
    );
  }
  const known = CNI_VERSIONS.indexOf(cniVersion as (typeof CNI_VERSIONS)[number]);
  if (known < 0 || known < CNI_VERSIONS.indexOf(since as (typeof CNI_VERSIONS)[number])) {
    const supported = CNI_VERSIONS.slice(CNI_VERSIONS.indexOf(since as (typeof CNI_VERSIONS)[number])).join(", ");
    throw new RefusalError(refuse("VERSION_UNSUPPORTED", { version: cniVersion, verb, supported }));
  }
  return { text, conf, cniVersion };
}

/** As readConfig, with the network it defines. Throws RefusalError CONFIG_INVALID besides. */
export function readDefinedConfig(text: string, verb: string, since: string): DefinedConfig {
  const config = readConfig(text, verb, since);
  return { ...config, definition: parsePluginConfig(config.conf) };
}

/** What they say of the network is read once, whatever the runtime writes into them for one container. */
export class AddConfigs {
  /** By the text of what they say of the network. */
  readonly #remembered = new Map<string, DefinedConfig>();
  #rememberedChars = 0;

  /** See readDefinedConfig. */
  read(text: string): DefinedConfig {
    const known = this.#remembered.get(text);
    if (known !== undefined) return known;
    const config = readConfig(text, "ADD", "0.1.0");
    const conf = withoutContainer(config.conf);
    if (conf === config.conf) return this.#readNew(config);
    const ofNetwork = { ...config, text: textOf(conf), conf };
    const { definition } = this.#remembered.get(ofNetwork.text) ?? this.#readNew(ofNetwork);
    return { ...config, definition };
  }

  #readNew(config: PluginConfig): DefinedConfig {
    const read = { ...config, definition: parsePluginConfig(config.conf) };
    const { text, cniVersion, definition } = read;
    const remembered =
      text.length <= PARSED_CHARS_MAX
        ? read
        : {
            ...{ text, cniVersion, definition },
            get conf() {
              return parsePassed(text);
            },
          };
    const chars = this.#rememberedChars + read.text.length;
    const isFull = this.#remembered.size >= REMEMBERED_MAX || chars > REMEMBERED_CHARS_MAX;
    if (isFull) this.#remembered.clear();
    this.#remembered.set(read.text, remembered);
    this.#rememberedChars = isFull ? read.text.length : chars;
    return read;
  }
}

/** The configuration without what a runtime writes into it for one container; itself if it has nothing of that kind. */
function withoutContainer(conf: PluginConfig["conf"]): PluginConfig["conf"] {
  const { args, prevResult, runtimeConfig, ...rest } = conf;
  const { ipRanges, ...others } = isObject(runtimeConfig) ? runtimeConfig : {};
  if (args === undefined && prevResult === undefined && Object.keys(others).length === 0) return conf;
  return ipRanges === undefined ? rest : { ...rest, runtimeConfig: { ipRanges } };
}

/** Its JSON text. A number too large for JavaScript would become null there, as a key that is not given. */
function textOf(conf: PluginConfig["conf"]): string {
  return JSON.stringify(conf, (_, value) =>
    typeof value === "number" && !Number.isFinite(value) ? { tooLarge: String(value) } : value,
  );
}

/** The network of a configuration: its `name`. Throws RefusalError CONFIG_INVALID. */
export function networkNameOf({ conf }: PluginConfig): string {
  const { name } = conf;
  if (typeof name === "string" && isNetworkName(name)) return name;
  const remedy = "expected the name of a network";
  throw new RefusalError(refuse("CONFIG_INVALID", { key: "name", value: JSON.stringify(name) ?? "absent", remedy }));
}

/** The network of a DEL, or null: a DEL needs no configuration, so one that cannot be read is ignored. */
export function networkNameIn(text: string): string | null {
  try {
    const { name } = parsePassed(text);
    return typeof name === "string" && name !== "" ? name : null;
  } catch {
    return null;
  }
}

/** The CNI version of an error about this configuration. */
export function errorVersionOf(text: string): string {
  try {
    const { cniVersion } = parsePassed(text);
    if (CNI_VERSIONS.includes(cniVersion as (typeof CNI_VERSIONS)[number])) return cniVersion as string;
  } catch {
    // The error itself reports the problem.
  }
  return CNI_VERSIONS[CNI_VERSIONS.length - 1] as string;
}

function invalid(problem: string): never {
  throw new RefusalError(refuse("ENVIRONMENT_INVALID", { problem }));
}

import { existsSync } from "node:fs";
import { parse } from "yaml";
import { readBounded } from "../files.ts";
import { type Environment, type Given, SettingsError } from "./load.ts";
import { CONFIG } from "./processes.ts";
import { variableOf } from "./setting.ts";

/** Four dozen settings. The parser compares all keys with each other. */
const CONFIG_BYTES_MAX = 1 << 16;

/** The requested file of settings, else the default one if it exists. Throws SettingsError. */
export function readConfigFile(
  standard: string,
  flags: Given,
  env: Environment,
): { readonly path: string; readonly content: Given } {
  const asked = (flags[CONFIG] as string | undefined) ?? env[variableOf(CONFIG)];
  const path = asked ?? standard;
  return { path, content: asked === undefined && !existsSync(path) ? {} : read(path) };
}

function read(path: string): Given {
  let content: unknown;
  try {
    content = parse(readBounded(path, CONFIG_BYTES_MAX).toString("utf8"));
  } catch (error) {
    throw new SettingsError(`${path} cannot be read: ${(error as Error).message}`);
  }
  if (content === null || content === undefined) return {};
  if (typeof content !== "object" || Array.isArray(content))
    throw new SettingsError(`${path}: expected a mapping of settings, such as "logLevel: debug"`);
  return content as Given;
}

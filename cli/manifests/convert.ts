import { CONVERTED_TYPES, convertConfig } from "../../ipam/definition/convert-config.ts";
import { isObject, type JsonObject, parseConfiguration } from "../../ipam/definition/definition-keys.ts";
import { foldAsGo } from "../../ipam/definition/go-json.ts";
import { parseNadConfig } from "../../ipam/definition/nad-config.ts";
import { LIST_KEYS } from "../../ipam/definition/read-keys.ts";
import { RefusalError, refuse } from "../../ipam/refusals.ts";
import { CommandError } from "../failure.ts";
import { note, printable } from "../terminal.ts";
import type { Placed } from "./run.ts";

/** Entry of the bundle. Resolves with an Error where it cannot be converted; other errors are faults and are thrown. */
export async function convertPlaced(placed: Placed): Promise<string | Error> {
  try {
    return await convertedText(placed);
  } catch (error) {
    if (error instanceof RefusalError || error instanceof CommandError) return error;
    throw error;
  }
}

/** The text of one document: a NetworkAttachmentDefinition as YAML, a configuration as JSON. */
async function convertedText({ object, place }: Placed): Promise<string> {
  if (!isObject(object)) throw new CommandError("expected an object: a CNI configuration, or an object around one");
  if (object.kind !== "NetworkAttachmentDefinition")
    return json(convert(foldAsGo(object, LIST_KEYS) as JsonObject, place, "unnamed"));
  const { spec, metadata } = object;
  const config = isObject(spec) ? spec.config : undefined;
  if (typeof config !== "string") throw new CommandError("spec.config has no CNI configuration");
  const name = isObject(metadata) ? String(metadata.name ?? "") : "";
  const converted = json(convert(parseConfiguration(config), place, name));
  const { stringify } = await import("yaml");
  return stringify(
    { ...object, spec: { ...(spec as JsonObject), config: converted } },
    { version: "1.1", lineWidth: 0 },
  );
}

/** What is not the same is noted. Throws where Holdfast would refuse the result. */
function convert(conf: JsonObject, place: string, objectName: string): JsonObject {
  const converted = convertConfig(conf);
  if (converted === null) {
    throw new CommandError(`no plugin has an ipam.type that is converted: ${CONVERTED_TYPES}`);
  }
  for (const text of converted.notes) note(`note: ${place}: ${printable(text)}`);
  const { network, definition } = parseNadConfig(JSON.stringify(converted.conf), objectName);
  if (definition.rangeSets.length === 0) throw new RefusalError(refuse("NETWORK_UNDEFINED", { network }));
  for (const text of definition.notes) note(`note: ${place}: ${printable(text)}`);
  return converted.conf;
}

function json(conf: JsonObject): string {
  return `${JSON.stringify(conf, null, 2)}\n`;
}

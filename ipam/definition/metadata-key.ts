import { type ConfigValue, invalid, isGiven, isObject, readObject, readText } from "./definition-keys.ts";

/** VMs of a network get metadata at 169.254.169.254. */
export interface NetworkMetadata {
  /** Whether the EC2 tree requires a session token (IMDSv2). */
  readonly tokens: MetadataTokens;
}

type MetadataTokens = "off" | "optional" | "required";

const METADATA_KEYS = ["tokens"] as const;
const TOKENS: readonly unknown[] = ["off", "optional", "required"] satisfies MetadataTokens[];

/** Reads the key `metadata`; null: off. Throws RefusalError CONFIG_INVALID. */
export function readMetadata(found: ConfigValue): NetworkMetadata | null {
  if (found.value === false) return null;
  if (found.value === true) return { tokens: "optional" };
  if (!isObject(found.value)) invalid(found, 'expected true, false or an object such as {"tokens": "required"}');
  const { tokens } = readObject(found, METADATA_KEYS);
  return { tokens: isGiven(tokens) ? readTokens({ key: `${found.key}.tokens`, value: tokens }) : "optional" };
}

function readTokens(found: ConfigValue): MetadataTokens {
  const text = readText(found);
  if (!TOKENS.includes(text)) invalid(found, 'expected "off", "optional" or "required"');
  return text as MetadataTokens;
}

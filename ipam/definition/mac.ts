import { type ConfigValue, invalid } from "./definition-keys.ts";

/** Of six bytes, as Go's net.ParseMAC takes them: with colons, hyphens, or dots (`0200.0000.0001`). */
const MAC = /^(?:[0-9a-f]{2}(?::[0-9a-f]{2}){5}|[0-9a-f]{2}(?:-[0-9a-f]{2}){5}|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2})$/i;

const CANONICAL = /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/;

/** `02:00:00:00:00:01`; null: it is none of an Ethernet interface. */
export function canonicalMac(text: string): string | null {
  // Nearly every one, of ten thousand at a time.
  if (CANONICAL.test(text)) return text;
  if (!MAC.test(text)) return null;
  const digits = text.toLowerCase().replaceAll(/[:.-]/g, "");
  return (digits.match(/../g) as string[]).join(":");
}

/** The same of a value that has to be one. Throws RefusalError CONFIG_INVALID. */
export function readMac(found: ConfigValue): string {
  const mac = typeof found.value === "string" ? canonicalMac(found.value) : null;
  return mac ?? invalid(found, "expected a MAC address of six bytes, as 02:00:00:00:00:01");
}

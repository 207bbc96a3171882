/** RFC 1035: of one label, and of a whole name without the dot at its end. */
const LABEL_CHARS_MAX = 63;
const NAME_CHARS_MAX = 253;

/**
 * A name that somebody chose for the guest, as it can be one: valid labels, joined with dots. null: nothing is left of
 * it.
 */
export function validHostname(text: string): string | null {
  const labels = text
    .toLowerCase()
    .split(".")
    .map(validLabel)
    .filter((label) => label !== "");
  while (labels.join(".").length > NAME_CHARS_MAX) labels.pop();
  return labels.length === 0 ? null : labels.join(".");
}

/**
 * An object's name as a host name. Only what stands before its first dot, as with KubeVirt: the rest is no domain that
 * anybody has. null: nothing is left of it.
 */
export function hostnameOfObject(name: string): string | null {
  return validLabel(name.split(".")[0]?.toLowerCase() ?? "") || null;
}

function validLabel(text: string): string {
  return text
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, LABEL_CHARS_MAX)
    .replace(/-+$/, "");
}

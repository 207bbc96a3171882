import type { Buffer } from "node:buffer";
import { guestLinks } from "./guest-network.ts";
import { type Instance, tidyKeys } from "./instance.ts";
import { has, type OpenStackVersion } from "./openstack-versions.ts";

/** Nova's name for the zone of a host that is in none. */
const DEFAULT_ZONE = "nova";

/** `meta` and the keys are there only if the instance has some, `random_seed` only with something to make it from. */
export function metaDataJson(
  instance: Instance,
  version: OpenStackVersion,
  seed: (() => Buffer) | null,
): Record<string, unknown> {
  const keys = tidyKeys(instance.publicKeys);
  const meta = guestMeta(instance.meta);
  return {
    uuid: instance.uuid,
    ...(Object.keys(meta).length > 0 ? { meta } : {}),
    ...(keys.length > 0
      ? {
          public_keys: Object.fromEntries(keys.map(({ name, data }) => [name, data])),
          keys: keys.map(({ name, data }) => ({ name, type: "ssh", data })),
        }
      : {}),
    hostname: instance.hostname,
    name: instance.name,
    launch_index: instance.launchIndex,
    availability_zone: instance.availabilityZone ?? DEFAULT_ZONE,
    ...(seed && has(version, "randomSeed") ? { random_seed: seed().toString("base64") } : {}),
    ...(has(version, "projectId") ? { project_id: instance.projectId } : {}),
    ...(has(version, "devices") ? { devices: devices(instance, version) } : {}),
    ...(has(version, "dedicatedCpus") ? { dedicated_cpus: [] } : {}),
  };
}

/** Longest key of a ConfigMap. PyYAML gives up a document for a key of more than 1,024 characters, escapes counted. */
const META_KEY_CHARS_MAX = 253;

/**
 * The tenant's metadata that does not harm: without `dsmode: disabled`, at which cloud-init drops the whole source (the
 * VM would come up without keys and could not be mended from inside), and without keys that no YAML reader takes.
 */
export function guestMeta(meta: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(meta).filter(
      ([key, value]) =>
        key.length <= META_KEY_CHARS_MAX && !/\p{C}/u.test(key) && (key !== "dsmode" || value !== "disabled"),
    ),
  );
}

/** Each link, tagged with its network, so that a guest can tell them apart. The place on a bus is not known. */
function devices(instance: Instance, version: OpenStackVersion): readonly object[] {
  return guestLinks(instance).map(({ mac, network }) => ({
    ...(has(version, "trustedVf") ? { vf_trusted: false } : {}),
    type: "nic",
    mac,
    bus: "none",
    address: "none",
    tags: [network],
  }));
}

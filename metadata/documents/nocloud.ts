import { type Answer, listAnswer, NOT_FOUND, textAnswer } from "./answer.ts";
import { type Instance, tidyKeys } from "./instance.ts";
import { guestMeta } from "./meta-data-json.ts";
import { networkConfig, templateNetworkConfig } from "./network-config.ts";

const FILES = ["meta-data", "network-config", "user-data", "vendor-data"] as const;

/**
 * GET below `/nocloud`, the base of `ds=nocloud;s=http://169.254.169.254/nocloud/`. A file without content is 200 and
 * empty: a 404 costs the guest ten seconds of retries for vendor-data and network-config, and its source for the
 * others.
 */
export function noCloudAnswer(segments: readonly string[], instance: Instance): Answer {
  const [name, ...rest] = segments;
  if (name === undefined) return listAnswer(FILES);
  if (rest.length > 0) return NOT_FOUND;
  switch (name) {
    case "meta-data":
      return textAnswer(yamlText(metaData(instance)));
    case "user-data":
      return textAnswer(instance.userData ?? "");
    case "vendor-data":
      return textAnswer(instance.vendorData ?? "");
    case "network-config": {
      const { networkDocument } = instance;
      const config = networkDocument === null ? networkConfig(instance) : templateNetworkConfig(networkDocument);
      return textAnswer(config === null ? "" : yamlText(config));
    }
    default:
      return NOT_FOUND;
  }
}

/** The tenant's metadata stands below `meta`: at the top cloud-init takes keys such as `seedfrom` for orders. */
function metaData(instance: Instance): Record<string, unknown> {
  const keys = tidyKeys(instance.publicKeys);
  const meta = guestMeta(instance.meta);
  return {
    "instance-id": instance.uuid,
    "local-hostname": instance.hostname,
    ...(keys.length > 0 ? { "public-keys": keys.map(({ data }) => data) } : {}),
    ...(instance.availabilityZone === null ? {} : { "availability-zone": instance.availabilityZone }),
    ...(instance.instanceType === null ? {} : { "instance-type": instance.instanceType }),
    ...(Object.keys(meta).length > 0 ? { meta } : {}),
  };
}

/** JSON but for characters that PyYAML, a guest's reader, refuses or breaks lines at. Ends with a line break. */
export function yamlText(value: unknown): string {
  const json = JSON.stringify(value, null, 2);
  const escaped = json.replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `${escaped}\n`;
}

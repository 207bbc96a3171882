import { Buffer } from "node:buffer";
import { type Answer, jsonAnswer, listAnswer, NOT_FOUND, sentence, textAnswer } from "./answer.ts";
import { guestLinks } from "./guest-network.ts";
import type { Instance } from "./instance.ts";
import { metaDataJson } from "./meta-data-json.ts";
import { networkData } from "./network-data.ts";
import { has, OPENSTACK_VERSIONS, type OpenStackVersion, readVersion } from "./openstack-versions.ts";

/** Nova's limit. An RSA-4096 cipher text in base64 has 684 bytes. */
export const PASSWORD_BYTES_MAX = 1_020;

interface OpenStackOptions {
  /** Random bytes for `random_seed`, new at each call; null: there is none. */
  readonly seed: (() => Buffer) | null;
}

/** GET below `/openstack`: no segment lists versions, one a version's files. No version has files of a later one. */
export function openStackAnswer(segments: readonly string[], instance: Instance, options: OpenStackOptions): Answer {
  const [versionText, name, ...rest] = segments;
  if (versionText === undefined) return listAnswer([...OPENSTACK_VERSIONS, "latest"]);
  const version = readVersion(versionText);
  if (version === null || rest.length > 0) return NOT_FOUND;
  const files = filesOf(instance, version, options);
  if (name === undefined) return listAnswer([...files.keys()]);
  return files.get(name)?.() ?? NOT_FOUND;
}

/** Is this the path of the password, in a version that has it? `segments` come after `/openstack`. */
export function isPasswordPath(segments: readonly string[]): boolean {
  const version = segments[0] === undefined ? null : readVersion(segments[0]);
  return segments.length === 2 && segments[1] === "password" && version !== null && has(version, "password");
}

/** In the order of Nova's listings. */
function filesOf(
  instance: Instance,
  version: OpenStackVersion,
  { seed }: OpenStackOptions,
): ReadonlyMap<string, () => Answer> {
  const { userData, vendorData, password, networkDocument } = instance;
  // Under the key that cloud-init reads, so that the operator writes plain cloud-config.
  const vendor = vendorData === null ? {} : { "cloud-init": vendorData };
  const files: readonly (readonly [name: string, there: boolean, answer: () => Answer])[] = [
    ["meta_data.json", true, () => jsonAnswer(metaDataJson(instance, version, seed))],
    ["user_data", userData !== null, () => (userData === null ? NOT_FOUND : textAnswer(userData))],
    [
      "password",
      has(version, "password") && password !== null,
      () => passwordAnswer({ method: "GET", body: Buffer.alloc(0) }, instance),
    ],
    ["vendor_data.json", has(version, "vendorData"), () => jsonAnswer(vendor)],
    // Of Nova's type: it sets none. Not there rather than empty where no link can be described: cloud-init would
    // configure no network at all from an empty one, and without it falls back to DHCP.
    [
      "network_data.json",
      has(version, "networkData") && (networkDocument !== null || guestLinks(instance).length > 0),
      () => jsonAnswer(networkDocument ?? networkData(instance), "text/plain; charset=UTF-8"),
    ],
    ["vendor_data2.json", has(version, "vendorData2"), () => jsonAnswer({ static: vendor })],
  ];
  return new Map(files.filter(([, there]) => there).map(([name, , answer]) => [name, answer]));
}

/**
 * The password that a guest made up and encrypted with its owner's public key: sent once, read by anyone in the guest.
 * GET answers what is stored, or nothing; the first POST is kept (as an effect), a second is a conflict. An empty POST
 * keeps nothing. 404 where no passwords are kept.
 */
export function passwordAnswer(
  { method, body }: { readonly method: string; readonly body: Buffer },
  instance: Instance,
): Answer {
  if (instance.password === null) return NOT_FOUND;
  const { stored } = instance.password;
  if (method === "GET" || method === "HEAD") return textAnswer(stored ?? "");
  if (method !== "POST") return sentence(400, "A password can be read with GET and set once with POST.");
  if (stored !== null && stored.length > 0) return sentence(409, "The password is already set.");
  if (body.length > PASSWORD_BYTES_MAX) {
    return sentence(400, `A password has at most ${PASSWORD_BYTES_MAX} bytes.`);
  }
  if (body.length === 0) return textAnswer("");
  return {
    ...textAnswer(""),
    effect: { kind: "keepPassword", instanceUuid: instance.uuid, password: body },
  };
}

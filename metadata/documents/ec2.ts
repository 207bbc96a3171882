import type { Buffer } from "node:buffer";
import { formatAddress } from "../../ipam/space/address.ts";
import { type Answer, jsonAnswer, listAnswer, NOT_FOUND, textAnswer } from "./answer.ts";
import { firstIPv4, type Instance, tidyKeys } from "./instance.ts";

/** Dates of the EC2 tree, oldest first, as Nova serves them. */
const EC2_VERSIONS = [
  "1.0",
  "2007-01-19",
  "2007-03-01",
  "2007-08-29",
  "2007-10-10",
  "2007-12-15",
  "2008-02-01",
  "2008-09-01",
  "2009-04-04",
] as const;

type Tree = ReadonlyMap<string, Node>;
type Node = Tree | string | Buffer;

const DEFAULT_ZONE = "nova";

/** `/`: the versions, which need no identity. */
export function ec2Versions(): Answer {
  return listAnswer([...EC2_VERSIONS, "latest"]);
}

/** GET of the EC2 tree, version first. A directory lists its names, sorted, directories with a slash at the end. */
export function ec2Answer(segments: readonly string[], instance: Instance): Answer {
  const [versionText, ...path] = segments;
  if (versionText === undefined) return ec2Versions();
  const version = versionText === "latest" ? EC2_VERSIONS.at(-1) : EC2_VERSIONS.find((known) => known === versionText);
  if (version === undefined) return NOT_FOUND;
  if (path[0] === "dynamic") return dynamicAnswer(path.slice(1), instance);
  let node: Node | undefined = versionTree(instance, version);
  for (const segment of path) node = isTree(node) ? node.get(segment) : undefined;
  if (node === undefined) return NOT_FOUND;
  return isTree(node) ? listAnswer(names(node, path)) : textAnswer(node);
}

function isTree(node: Node | undefined): node is Tree {
  return node instanceof Map;
}

function names(tree: Tree, path: readonly string[]): readonly string[] {
  const sorted = [...tree.keys()].filter((name) => name !== KEY_NAME).sort();
  return sorted.map((name) => {
    const node = tree.get(name);
    if (!isTree(node)) return name;
    // The one odd listing: `0=name`, although `public-keys/0/` is a directory.
    return path.join("/") === "meta-data/public-keys" ? `${name}=${node.get(KEY_NAME)}` : `${name}/`;
  });
}

/** Keeps a key's name with its directory; no segment of a path is empty, so it is not served. */
const KEY_NAME = "";

function versionTree(instance: Instance, version: string): Tree {
  const tree = new Map<string, Node>([["meta-data", metaData(instance, version)]]);
  if (instance.userData !== null) tree.set("user-data", instance.userData);
  return tree;
}

/** Leaves of Nova's every version that guests' scripts read. Empty: there is no image or reservation to name. */
const EMPTY_LEAVES = ["ami-id", "ami-manifest-path", "reservation-id", "security-groups"];

/** Of what else is not known there is no leaf. */
function metaData(instance: Instance, version: string): Tree {
  const tree = new Map<string, Node>();
  const ipv4 = firstIPv4(instance);
  for (const leaf of EMPTY_LEAVES) tree.set(leaf, "");
  tree.set("ami-launch-index", String(instance.launchIndex));
  tree.set("instance-id", ec2InstanceId(instance));
  tree.set("hostname", instance.hostname);
  if (ipv4 !== null) tree.set("local-ipv4", formatAddress(ipv4));
  const keys = tidyKeys(instance.publicKeys);
  if (keys.length > 0) tree.set("public-keys", publicKeys(keys));
  if (version >= "2007-01-19") {
    tree.set("local-hostname", instance.hostname);
    tree.set("public-hostname", instance.publicHostname ?? instance.hostname);
    // Empty as with Nova where there is no public address.
    tree.set("public-ipv4", instance.publicIPv4 ?? "");
  }
  if (version >= "2007-08-29" && instance.instanceType !== null) {
    tree.set("instance-type", instance.instanceType);
  }
  if (version >= "2007-12-15" && instance.rootDevice !== null) {
    const { rootDevice } = instance;
    const name = rootDevice.replace(/^\/dev\//, "");
    tree.set("block-device-mapping", new Map().set("ami", name).set("root", rootDevice));
  }
  if (version >= "2008-02-01") {
    tree.set("placement", new Map([["availability-zone", instance.availabilityZone ?? DEFAULT_ZONE]]));
  }
  if (version >= "2008-09-01") tree.set("instance-action", "none");
  return tree;
}

function publicKeys(keys: readonly { readonly name: string; readonly data: string }[]): Tree {
  return new Map(
    keys.map(({ name, data }, at): [string, Tree] => [
      String(at),
      new Map([
        [KEY_NAME, name],
        ["openssh-key", data],
      ]),
    ]),
  );
}

/** `i-` and the UUID's digits: unlike Amazon's in length, but never the same for two VMs, and plainly this VM's. */
function ec2InstanceId(instance: Instance): string {
  return `i-${instance.uuid.replaceAll("-", "").toLowerCase()}`;
}

/**
 * `dynamic/`, for guests that take themselves to be at Amazon: cloud-init spends five seconds on a document that is not
 * there. Not in a version's listing, which stays Nova's; without signature, as there is none to trust.
 */
function dynamicAnswer(path: readonly string[], instance: Instance): Answer {
  switch (path.join("/")) {
    case "":
      return listAnswer(["instance-identity/"]);
    case "instance-identity":
      return listAnswer(["document"]);
    case "instance-identity/document":
      return jsonAnswer(identityDocument(instance), "text/plain; charset=UTF-8");
    default:
      return NOT_FOUND;
  }
}

function identityDocument(instance: Instance): Record<string, unknown> {
  const ipv4 = firstIPv4(instance);
  return {
    accountId: instance.projectId,
    availabilityZone: instance.availabilityZone ?? DEFAULT_ZONE,
    instanceId: ec2InstanceId(instance),
    ...(instance.instanceType === null ? {} : { instanceType: instance.instanceType }),
    ...(ipv4 === null ? {} : { privateIp: formatAddress(ipv4) }),
    version: "2017-09-30",
  };
}

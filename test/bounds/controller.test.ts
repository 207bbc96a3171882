import { beforeAll, describe, expect, test } from "vitest";
import { World } from "../harness/world/world.ts";
import { keptBy } from "./measure.ts";
import { ANNOTATIONS_BYTES_MAX, objectWith } from "./objects.ts";
import { list, SHAPES } from "./shapes.ts";

const SENDS = 20;
/** Each object; 20 of 1.5 MB take the server in memory a minute. */
const BYTES_MAX = 500_000;

/** What compiled code and the like differ by from controller to controller: 0.3 MB have been seen. */
const NOISE_BYTES = 500_000;

interface Kind {
  readonly path: string;
  readonly objectOf: (bytes: number, salt: number) => string;
  /** How many times the text at most, where it is more than 2 (docs/bounds.md). */
  readonly keptMax?: number;
}

const POD = { apiVersion: "v1", kind: "Pod", spec: { containers: [{ name: "c", image: "i" }] } };
const CLAIM = {
  apiVersion: "k8s.cni.cncf.io/v1alpha1",
  kind: "IPAMClaim",
  spec: { network: "blue", interface: "net1" },
};
const NAD = { apiVersion: "k8s.cni.cncf.io/v1", kind: "NetworkAttachmentDefinition" };
const STATUS = "metadata.annotations.k8s.v1.cni.cncf.io/network-status";
const SELECTION = "metadata.annotations.k8s.v1.cni.cncf.io/networks";

const address = (at: number, salt: number) => `10.${(at >> 8) % 256}.${at % 256}.${salt}`;

const PODS = "/api/v1/namespaces/shop/pods";
/** The largest objects of each kind that the controller follows. */
const KINDS: Readonly<Record<string, Kind>> = {
  "pods of 512 addresses": {
    path: PODS,
    objectOf: (_, salt) => {
      const ips = Array.from({ length: 512 }, (_unused, at) => address(at, salt));
      const status = JSON.stringify([{ name: "shop/blue", interface: "net1", ips }]);
      return objectWith(STATUS, JSON.stringify(status), POD);
    },
    keptMax: 6,
  },
  "pods of too many addresses": {
    path: PODS,
    objectOf: (_, salt) => {
      const ips = list(ANNOTATIONS_BYTES_MAX / 2, (at) => `"${address(at, salt)}"`);
      return objectWith(STATUS, JSON.stringify(`[{"name":"shop/blue","ips":${ips}}]`), POD);
    },
  },
  "pods with a long selection": {
    path: PODS,
    objectOf: (_, salt) => {
      const text = list(ANNOTATIONS_BYTES_MAX / 2, (at) => `{"name":"n${at}s${salt}"}`);
      return objectWith(SELECTION, JSON.stringify(text), POD);
    },
  },
  "pods of many labels": {
    path: PODS,
    objectOf: (bytes, salt) => objectWith("metadata.labels", SHAPES.keys(bytes, salt), POD),
  },
  "pods of many owners": {
    path: PODS,
    objectOf: (bytes, salt) =>
      objectWith(
        "metadata.ownerReferences",
        list(bytes, (at) => `{"apiVersion":"v1","kind":"A","name":"${at}a${salt}","uid":"${at}b${salt}"}`),
        POD,
      ),
  },
  "claims of a long annotation": {
    path: "/apis/k8s.cni.cncf.io/v1alpha1/namespaces/shop/ipamclaims",
    objectOf: (_, salt) => objectWith("metadata.annotations.a", SHAPES.text(ANNOTATIONS_BYTES_MAX - 100, salt), CLAIM),
  },
  "definitions of many keys": {
    path: "/apis/k8s.cni.cncf.io/v1/namespaces/shop/network-attachment-definitions",
    objectOf: (_, salt) => {
      const more = SHAPES.keys(200_000, salt);
      const config = `{"cniVersion":"1.0.0","name":"n${salt}","type":"bridge","ipam":{"type":"holdfast-ipam","subnets":"10.0.0.0/24"},"more":${more}}`;
      return objectWith("spec.config", JSON.stringify(config), NAD);
    },
  },
};

/** What a controller adds to the heap that finds these objects, follows them and has settled. */
async function keptOfObjects({ path, objectOf }: Kind, bytes: number): Promise<{ kept: number; text: number }> {
  const world = await World.start({ api: "memory" });
  try {
    let text = 0;
    for (let at = 0; at < SENDS; at += 1) {
      const json = objectOf(bytes, at + 1);
      text += json.length;
      const object = JSON.parse(json);
      object.metadata = { ...object.metadata, name: `one-${at}`, uid: undefined, resourceVersion: undefined };
      await world.cluster.api.create(path, object);
    }
    const kept = await keptBy(async () => {
      const controller = await world.startController();
      await world.time.advance(5_000);
      return controller;
    });
    return { kept, text };
  } finally {
    await world.stop();
  }
}

describe("a controller keeps twice at most of the objects that it follows", () => {
  let own = 0;
  beforeAll(async () => {
    // The first one loads the product.
    const few = {
      path: PODS,
      objectOf: (_: number, salt: number) => objectWith("metadata.labels", `{"a":"${salt}"}`, POD),
    };
    await keptOfObjects(few, 0);
    own = (await keptOfObjects(few, 0)).kept;
  });

  test.each(Object.keys(KINDS))("%s", async (name) => {
    const kind = KINDS[name] as Kind;
    const { kept, text } = await keptOfObjects(kind, BYTES_MAX);
    expect(kept - own).toBeLessThanOrEqual((kind.keptMax ?? 2) * text + NOISE_BYTES);
  });
});

import { Buffer } from "node:buffer";
import { describe, expect, test } from "vitest";
import { isHostname, isTenantId, parseContentReference, referencesIn } from "../../kube/views/content-annotations.ts";
import { projectTenantObject } from "../../kube/views/tenant-objects.ts";
import { hashedInterface, projectVmi } from "../../kube/views/vmi-view.ts";
import { readContent, type TenantObjects } from "../../metadata/tenant/content.ts";
import { publicKey } from "./key-pairs.ts";

const METADATA = { namespace: "shop", name: "it", uid: "u", resourceVersion: "1", creationTimestamp: "t" };

describe("a reference", () => {
  test.each([
    ["secret/boot", { kind: "Secret", name: "boot", key: null }],
    ["  Secret/boot ", { kind: "Secret", name: "boot", key: null }],
    ["configmap/a.b-c/user.data", { kind: "ConfigMap", name: "a.b-c", key: "user.data" }],
    ["secret/x/..data", { kind: "Secret", name: "x", key: "..data" }],
  ] as const)("%j", (text, expected) => expect(parseContentReference(text)).toEqual(expected));

  test.each([
    ["", "nothing"],
    ["boot", "no kind"],
    ["secret/", "no name"],
    ["secret/boot/", "an empty key"],
    ["secret/Boot", "no name that an object can have"],
    ["secret/-boot", "no name that an object can have"],
    ["secret/a/b/c", "a part too many"],
    ["secret/../secrets", "no name that an object can have"],
    ["pod/boot", "no kind that holds content"],
    ["secret/a\nb", "a line break"],
  ])("%j is refused: %s", (text) => expect(parseContentReference(text)).toBeNull());
});

test("a tenant name is accepted where one header can carry it as one value", () => {
  for (const good of ["a", "9b1c0d-x_y.z:~!", "x".repeat(255)]) expect(isTenantId(good)).toBe(true);
  for (const bad of ["", "a,b", "a b", "ä", "a\n", "\u007f", "x".repeat(256)]) expect(isTenantId(bad)).toBe(false);
});

test("a host name is accepted where it is DNS labels separated by dots", () => {
  for (const good of ["a", "Web-0", "web.example", "0", "web.example."]) expect(isHostname(good)).toBe(true);
  for (const bad of ["", "-a", "a-", "a..b", "a..", ".", "a b", "ä", "x".repeat(64), `${"x.".repeat(127)}yz`])
    expect(isHostname(bad)).toBe(false);
});

const RSA = publicKey("ssh-rsa", "bob@x");
const ED25519 = publicKey("ssh-ed25519", "");
const P = "metadata.holdfast.dev/";
const boot = projectTenantObject(
  {
    metadata: { ...METADATA, name: "boot" },
    data: {
      userdata: Buffer.from([0xff, 0x00]).toString("base64"),
      text: Buffer.from("ä").toString("base64"),
    },
  },
  "Secret",
);
const all = projectTenantObject(
  {
    metadata: { ...METADATA, name: "all" },
    data: { b: "2", a: "1", number: 3, bob: `# his\n${RSA}\r\n\n ${ED25519}\n` },
    binaryData: { userData: Buffer.from("bytes").toString("base64") },
  },
  "ConfigMap",
);
const objects: TenantObjects = {
  find: (kind, name) =>
    [boot, all].find(({ key }) => key === `${kind}/${name}`) ?? (name === "hidden" ? "forbidden" : undefined),
};
const read = (annotations: Record<string, string>, vmi: Record<string, string> = {}) =>
  readContent(
    [annotations, vmi].map((one) => new Map(Object.entries(one).map(([key, value]) => [`${P}${key}`, value]))),
    objects,
  );

describe("content", () => {
  test("bytes are passed on unchanged, from either kind and under any of the usual keys", () => {
    expect(read({ "user-data": "secret/boot" }).userData).toEqual(Buffer.from([0xff, 0x00]));
    expect(read({ "user-data": "configmap/all" }).userData?.toString()).toBe("bytes");
    expect(read({ "user-data": "secret/boot/text" }).userData?.toString()).toBe("ä");
  });

  test("the VirtualMachine's annotation wins over the instance's, and an empty one removes it", () => {
    expect(read({}, { "user-data": "secret/boot/text" }).userData?.toString()).toBe("ä");
    expect(read({ "user-data": "configmap/all" }, { "user-data": "secret/boot/text" }).userData?.toString()).toBe(
      "bytes",
    );
    expect(read({ "user-data": "" }, { "user-data": "secret/boot" })).toMatchObject({
      userData: null,
      problems: [],
    });
  });

  test("each line of a key file is a key, and each text of an object is an entry of the tenant's metadata, in order", () => {
    expect(read({ "public-keys": "configmap/all/bob" }).publicKeys).toEqual([
      { name: "bob", data: RSA },
      { name: "bob-2", data: ED25519 },
    ]);
    const { meta } = read({ meta: "configmap/all" });
    expect(Object.keys(meta)).toEqual(["a", "b", "bob", "userData"]);
    expect(meta).toMatchObject({ a: "1", b: "2" });
    expect(read({ meta: "configmap/all/a" }).meta).toEqual({ a: "1" });
  });

  test("keys of one name are all kept", () => {
    const [a, b, c, d] = ["A", "B", "C", "D"].map((comment) => publicKey("ssh-rsa", comment)) as string[];
    const team = projectTenantObject(
      {
        metadata: { ...METADATA, name: "team" },
        data: { bob: [a, b, c].join("\n"), "bob-2": d },
      },
      "ConfigMap",
    );
    const annotations = new Map([[`${P}public-keys`, "configmap/team"]]);
    const { publicKeys } = readContent([annotations], { find: () => team });
    expect(publicKeys.map(({ name, data }) => `${name} ${data}`)).toEqual([
      `bob ${a}`,
      `bob-3 ${b}`,
      `bob-4 ${c}`,
      `bob-2 ${d}`,
    ]);
  });

  test.each([
    [{ "user-data": "secret/none" }, "MetadataUserDataUnavailable", "kubectl label secret/none metadata"],
    [{ "user-data": "secret/boot/none" }, "MetadataUserDataUnavailable", "Secret boot has no key none."],
    [{ "vendor-data": "secret/boot" }, "MetadataVendorDataUnavailable", "name yours: secret/boot/<key>"],
    [{ "vendor-data": "secret/boot/userdata" }, "MetadataVendorDataUnavailable", "no UTF-8 text"],
    [{ "public-keys": "AAAA" }, "MetadataPublicKeysUnavailable", "write secret/<name>"],
    [{ meta: "secret/boot" }, "MetadataMetaUnavailable", "(key userdata) is no UTF-8 text"],
    [{ meta: "configmap/all/none" }, "MetadataMetaUnavailable", "ConfigMap all has no key none"],
    [{ hostname: "a b" }, "MetadataHostnameUnavailable", '"a b" is no host name'],
    [{ "public-hostname": "a_b" }, "MetadataPublicHostnameUnavailable", '"a_b" is no host name'],
    [{ "public-ipv4": "2001:db8::1" }, "MetadataPublicIPv4Unavailable", "no IPv4 address; write one such as"],
    [{ meta: "configmap/holdfast-guest-passwords" }, "MetadataMetaUnavailable", "for passwords alone"],
  ])("%j leaves that part empty and says why", (annotations, reason, message) => {
    const content = read(annotations as Record<string, string>);
    expect(content.problems.map((one) => one.reason)).toEqual([reason]);
    expect(content.problems[0]?.message).toContain(message);
    expect(content).toMatchObject({ userData: null, vendorData: null, publicKeys: [], hostname: null });
  });

  test("a public address and name are read as they are written", () => {
    const content = read({ "public-ipv4": "203.0.113.7", "public-hostname": "www.example.org" });
    expect(content).toMatchObject({ publicIPv4: "203.0.113.7", publicHostname: "www.example.org" });
    expect(content.problems).toEqual([]);
  });

  test("an object that may not be read is named", () => {
    const content = read({ "user-data": "secret/hidden", meta: "configmap/hidden/key", hostname: "web" });
    expect(content).toMatchObject({
      forbidden: [
        { kind: "Secret", name: "hidden" },
        { kind: "ConfigMap", name: "hidden" },
      ],
      problems: [],
      hostname: "web",
      meta: {},
    });
  });

  test("the objects to read are those that the annotations name, without that of the passwords", () => {
    const annotations = {
      "user-data": "secret/boot/text",
      "vendor-data": "configmap/holdfast-guest-passwords",
      "public-keys": "nonsense",
      meta: "",
    };
    const maps = [annotations, { meta: "configmap/all", "user-data": "secret/other" }].map(
      (one) => new Map(Object.entries(one).map(([key, value]) => [`${P}${key}`, value])),
    );
    expect(referencesIn(maps)).toEqual([{ kind: "Secret", name: "boot", key: "text" }]);
  });
});

describe("the facts of a VMI", () => {
  const vmi = (spec: object, status: object = {}, metadata: object = {}) =>
    projectVmi({ metadata: { ...METADATA, ...metadata }, spec, status });

  test("are empty where the VMI has none", () => {
    expect(vmi({})).toMatchObject({ firmwareUuid: null, interfaces: [], vmUid: null, rootDevice: null });
    expect(() => projectVmi({ metadata: {} })).toThrow("metadata.namespace");
  });

  test("have no firmware UUID where it is not a UUID", () => {
    const uuid = (text: unknown) => vmi({ domain: { firmware: { uuid: text } } }).firmwareUuid;
    expect(uuid("5D1A8B1E-7C52-4B7E-9A1F-3F2F1D6B0C11")).toBe("5d1a8b1e-7c52-4b7e-9a1f-3f2f1d6b0c11");
    for (const bad of ["x", 7, null, "5d1a8b1e7c524b7e9a1f3f2f1d6b0c11"]) expect(uuid(bad)).toBeNull();
  });

  test("have interfaces by their hashed name, by their ordinal name and by the status", () => {
    const spec = {
      domain: {
        devices: {
          interfaces: [{ name: "blue" }, { name: "main" }, { name: "gone", state: "absent" }, { name: "green" }],
        },
      },
      networks: [
        { name: "main", multus: { networkName: "m", default: true } },
        { name: "blue", multus: { networkName: "b" } },
        { name: "green", multus: { networkName: "g" } },
      ],
    };
    const { interfaces } = vmi(spec, { interfaces: [{ name: "green", podInterfaceName: "podX", mac: "m" }] });
    expect(interfaces).toEqual([
      {
        name: "blue",
        nad: "b",
        mac: null,
        isDefault: false,
        podInterfaces: [hashedInterface("blue"), "net1"],
      },
      { name: "main", nad: "m", mac: null, isDefault: true, podInterfaces: ["eth0"] },
      {
        name: "green",
        nad: "g",
        mac: "m",
        isDefault: false,
        podInterfaces: ["podX", hashedInterface("green"), "net2"],
      },
    ]);
    // As KubeVirt's own tests have it.
    expect(hashedInterface("red")).toBe("podb1f51a511f1");
  });

  test("have the instance type of KubeVirt's annotations, the cluster's first", () => {
    const annotations = {
      "kubevirt.io/instancetype-name": "a",
      "kubevirt.io/cluster-instancetype-name": "u1.medium",
    };
    expect(vmi({}, {}, { annotations }).instanceType).toBe("u1.medium");
  });

  test("have the root device of the first boot disk, where it is reported", () => {
    const domain = {
      devices: { disks: [{ name: "a" }, { name: "b", bootOrder: 2 }, { name: "c", bootOrder: 1 }] },
    };
    const volumeStatus = [
      { name: "c", target: "vdc" },
      { name: "a", target: "vda" },
    ];
    expect(vmi({ domain }, { volumeStatus }).rootDevice).toBe("/dev/vdc");
    expect(vmi({ domain }, { volumeStatus: [{ name: "c", target: "../x" }] }).rootDevice).toBeNull();
  });
});

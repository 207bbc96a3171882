import { describe, expect, test } from "vitest";
import { address, BARE, get, instance, network } from "./instances.ts";

const VERSIONS =
  "1.0\n2007-01-19\n2007-03-01\n2007-08-29\n2007-10-10\n2007-12-15\n2008-02-01\n2008-09-01\n2009-04-04\nlatest";

describe("the exact texts of the EC2 tree", () => {
  test.each([
    ["/", VERSIONS, "the root"],
    ["/ec2", VERSIONS, "Nova's second name of it"],
    ["/latest", "meta-data/\nuser-data", "a version"],
    ["/latest/", "meta-data/\nuser-data", "with slash"],
    [
      "/latest/meta-data/",
      "ami-id\nami-launch-index\nami-manifest-path\nblock-device-mapping/\nhostname\ninstance-action\ninstance-id\ninstance-type\n" +
        "local-hostname\nlocal-ipv4\nplacement/\npublic-hostname\npublic-ipv4\npublic-keys/\nreservation-id\nsecurity-groups",
      "sorted, directories with slash, no last line break",
    ],
    ["/ec2/latest/meta-data/hostname", "vm1.example.net", "under the second name"],
    ["/latest/meta-data/instance-id", "i-5d1a8b1e7c524b7e9a1f3f2f1d6b0c11", "the UUID's digits"],
    ["/latest/meta-data/local-ipv4", "192.168.10.5", "of the primary interface"],
    ["/latest/meta-data/public-ipv4", "", "none, but the leaf is there"],
    ...["ami-id", "ami-manifest-path", "reservation-id", "security-groups"].flatMap((leaf) =>
      ["1.0", "latest"].map((version): [string, string, string] => [
        `/${version}/meta-data/${leaf}`,
        "",
        "nothing to name, but the leaf is there as Nova's is",
      ]),
    ),
    ["/latest/meta-data/ami-launch-index", "0", "a number as text"],
    ["/latest/meta-data/instance-type", "u1.medium", "a leaf"],
    ["/latest/meta-data/instance-action", "none", "a leaf"],
    ["/latest/meta-data/public-keys/", "0=alice\n1=bob", "the odd listing"],
    ["/latest/meta-data/public-keys/0", "openssh-key", "a directory after all"],
    ["/latest/meta-data/public-keys/1/openssh-key", "ssh-ed25519 AAAAbob bob@example.net", "one line"],
    ["/latest/meta-data/block-device-mapping", "ami\nroot", "a directory"],
    ["/latest/meta-data/block-device-mapping/ami", "vda", "without directory"],
    ["/latest/meta-data/block-device-mapping/root", "/dev/vda", "with it"],
    ["/latest/meta-data/placement/availability-zone", "zone-a", "nested"],
    ["/latest/user-data", "#cloud-config\npackages: [jq]\n", "raw"],
    ["/latest/dynamic", "instance-identity/", "not listed above"],
    ["/latest/dynamic/instance-identity", "document", "without signature"],
  ])("%s", (path, text, _why) => {
    expect(get(path)).toMatchObject({ status: 200, text });
    expect(get(path).headers["content-type"]).toBe("text/plain; charset=UTF-8");
  });
});

test("a public address and name are those that the VM's owner gives", () => {
  const of = instance({ publicIPv4: "203.0.113.7", publicHostname: "www.example.org" });
  expect(get("/latest/meta-data/public-ipv4", { of }).text).toBe("203.0.113.7");
  expect(get("/latest/meta-data/public-hostname", { of }).text).toBe("www.example.org");
  expect(get("/latest/meta-data/local-hostname", { of }).text).toBe("vm1.example.net");
  expect(get("/latest/meta-data/public-hostname").text).toBe("vm1.example.net");
});

test("version 1.0 has only the leaves of that time", () => {
  expect(get("/1.0/meta-data").text).toBe(
    "ami-id\nami-launch-index\nami-manifest-path\nhostname\ninstance-id\nlocal-ipv4\npublic-keys/\nreservation-id\nsecurity-groups",
  );
});

test("unknown values have no leaf", () => {
  expect(get("/latest", { of: BARE }).text).toBe("meta-data/");
  expect(get("/latest/meta-data", { of: BARE }).text).toBe(
    "ami-id\nami-launch-index\nami-manifest-path\nhostname\ninstance-action\ninstance-id\nlocal-hostname\nplacement/\n" +
      "public-hostname\npublic-ipv4\nreservation-id\nsecurity-groups",
  );
  expect(get("/latest/meta-data/placement/availability-zone", { of: BARE }).text).toBe("nova");
});

test("the identity document names the same instance", () => {
  expect(JSON.parse(get("/latest/dynamic/instance-identity/document").text)).toEqual({
    accountId: "0b4c7f0e-2f7d-4a43-8a52-6a1a4c5d0f01",
    availabilityZone: "zone-a",
    instanceId: "i-5d1a8b1e7c524b7e9a1f3f2f1d6b0c11",
    instanceType: "u1.medium",
    privateIp: "192.168.10.5",
    version: "2017-09-30",
  });
});

test.each([
  [[network({ addresses: [address("10.0.0.9/24")] }), network({ primary: true })], "192.168.10.5", "the primary's"],
  [[network({ addresses: [address("10.0.0.9/24")] }), network()], "10.0.0.9", "else the first"],
  [[network({ primary: true, addresses: [address("fd10::5/64")] }), network()], "192.168.10.5", "that has one"],
])("local-ipv4 %#: %3$s", (networks, expected, _why) => {
  expect(get("/latest/meta-data/local-ipv4", { of: instance({ networks }) }).text).toBe(expected);
});

test.each([
  ["/2021-03-23/meta-data/instance-id", "cloud-init asks for it and goes on to 2009-04-04"],
  ["/2009-04-05", "no version"],
  ["/latest/meta-data/nothing", "no leaf"],
  ["/latest/meta-data/hostname/more", "a leaf is no directory"],
  ["/latest/meta-data/hostname/get", "nor has it methods"],
  ["/latest/meta-data/public-keys/2", "no third key"],
  ["/latest/meta-data/public-keys/0=alice", "the listing's name is none of the path"],
  ["/latest/dynamic/instance-identity/pkcs7", "nothing is signed"],
  ["/latest/meta-data/iam/security-credentials/", "there are none"],
  ["/constructor", "no version"],
])("%s is 404: %s", (path, _why) => {
  expect(get(path).status).toBe(404);
});

test("without user data there is no user-data leaf", () => {
  expect(get("/latest/user-data", { of: BARE }).status).toBe(404);
});

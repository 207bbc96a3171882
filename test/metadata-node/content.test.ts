import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { boot, whyNoCloudInit, whyNoNewerCloudInit } from "../metadata/cloud-init/cloud-init.ts";
import { whyNotReal } from "../network/containers.ts";
import { MetadataNode } from "./metadata-node.ts";

/** Guests of a node without Kubernetes that boot with what their claims name. */
const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGcZ2hlc3QgYSBrZXk alice@desk";
const OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBHdZ2hlc3QgYSBrZXk bob@desk";
const ANNOTATION = "metadata.holdfast.dev";
const why = whyNotReal() ?? whyNoCloudInit();
const cloudInits = [
  { release: "Debian 12's cloud-init", newer: false, reason: null },
  { release: "Debian 13's cloud-init", newer: true, reason: whyNoNewerCloudInit() },
];

describe.skipIf(why !== null)(why ?? "a cloud image on one node", () => {
  let node: MetadataNode;
  beforeAll(async () => {
    node = await MetadataNode.start();
  });
  afterAll(() => node?.stop());

  /** A VM whose claim names a Secret of its own. */
  async function attach(name: string, config: ReturnType<MetadataNode["network"]>, key: string) {
    const userData = `#cloud-config\nwrite_files: [{path: /etc/told, content: ${name}}]\nruncmd: ["echo ${name} > /run/ran"]\n`;
    const annotations = {
      [`${ANNOTATION}/user-data`]: `secret/${name}`,
      [`${ANNOTATION}/public-keys`]: `secret/${name}/authorized_keys`,
      [`${ANNOTATION}/hostname`]: `${name}.example.org`,
    };
    const objects = [
      {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name },
        stringData: { "user-data": userData, authorized_keys: key },
      },
      {
        apiVersion: "k8s.cni.cncf.io/v1alpha1",
        kind: "IPAMClaim",
        metadata: { name, annotations },
        spec: { network: config.name },
      },
    ];
    const { body } = await node.daemon.post("/v1/apply", { objects });
    expect(body).not.toContain('"error"');
    const guest = await node.guest(name, config, `IgnoreUnknown=1;IPAM_CLAIM=default/${name}`);
    await node.untilServed(guest);
    return guest;
  }

  describe.each(cloudInits)("$release", ({ newer, reason }) => {
    test.skipIf(reason !== null)(
      "two VMs on one bridge boot with their own keys, host names, files and commands",
      async () => {
        const config = node.network(newer ? "newer" : "older");
        const names = [`one-${newer ? "n" : "o"}`, `two-${newer ? "n" : "o"}`] as const;
        const one = await attach(names[0], config, KEY);
        const two = await attach(names[1], config, OTHER_KEY);
        const booted = await Promise.all([one, two].map(({ namespace }) => boot(namespace, { newer })));
        for (const [index, key] of [KEY, OTHER_KEY].entries()) {
          const name = names[index] as string;
          const { hostname, keys, written, ran, instance, status, log } = booted[index] ?? {};
          expect(status?.v1, log).toMatchObject({
            datasource: expect.stringContaining("OpenStack"),
            errors: [],
          });
          expect({ hostname, written, ran }).toEqual({ hostname: name, written: name, ran: `${name}\n` });
          expect(keys).toContain(key);
          expect(keys).not.toContain(key === KEY ? "bob" : "alice");
          expect(instance?.platform).toBe("openstack");
        }
        await node.end(one);
        await node.end(two);
      },
    );
  });
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { network, TestDaemon } from "../harness/daemon.ts";
import { TestMetadataServer } from "../harness/metadata/server.ts";

let daemon: TestDaemon;
let server: TestMetadataServer;
beforeAll(async () => {
  daemon = await TestDaemon.start();
  server = new TestMetadataServer(daemon.directory);
  await server.run();
});
afterAll(async () => {
  await server?.end();
  await daemon?.stop();
});

/** As a listener does for eth0 of a container with that address. */
const asked = (container: string, source: string, of = "blue") =>
  server.ask("/openstack/latest/meta_data.json", {
    network: of,
    subject: `container/${container}/eth0`,
    source,
  });
const config = (name: string) => network(name, { subnets: "10.40.0.0/24", cooldownSeconds: 0, gateway: "10.40.0.1" });

test("a container gets its own metadata from its ADD to its DEL, on each of two networks with one address", async () => {
  const [one, two] = await Promise.all([
    daemon.cni("ADD", "c1", { config: config("blue") }),
    daemon.cni("ADD", "c2", { config: config("red") }),
  ]);
  const [address] = one.json().ips[0].address.split("/");
  expect(two.json().ips[0].address.split("/")[0]).toBe(address);
  const [blue, red] = [await asked("c1", address), await asked("c2", address, "red")];
  expect([blue.status, red.status]).toEqual([200, 200]);
  expect(blue.json().name).toBe("c1");
  expect(red.json().name).toBe("c2");
  expect(blue.json().uuid).not.toBe(red.json().uuid);
  await daemon.cni("DEL", "c1", { config: config("blue") });
  expect((await asked("c1", address)).status).toBe(404);
  expect((await asked("c2", address, "red")).status).toBe(200);
});

test("an address that changes its owner is never answered with the former one", async () => {
  const [net, names] = ["tight", ["a", "b", "c"]];
  const tight = network(net, { subnets: "10.41.0.0/30", cooldownSeconds: 0, excludeSubnets: "10.41.0.2/32" });
  for (let turn = 0; turn < 12; turn++) {
    const name = `${names[turn % names.length]}${turn}`;
    const added = await daemon.cni("ADD", name, { config: tight });
    expect(added.code, added.stdout).toBe(0);
    const answers = await Promise.all(Array.from({ length: 5 }, () => asked(name, "10.41.0.1", net)));
    expect(new Set(answers.map((answer) => answer.json().name))).toEqual(new Set([name]));
    await daemon.cni("DEL", name, { config: tight });
    expect((await asked(name, "10.41.0.1", net)).status).toBe(404);
  }
});

test("an address that changes its owner is never answered with the former one while other requests reuse answers", async () => {
  const tight = network("busy", {
    subnets: "10.42.0.0/30",
    cooldownSeconds: 0,
    excludeSubnets: "10.42.0.2/32",
  });
  let stopped = false;
  let name = "none";
  const asking = Array.from({ length: 3 }, async () => {
    while (!stopped) await asked(name, "10.42.0.1", "busy");
  });
  try {
    for (let turn = 0; turn < 25; turn++) {
      name = `busy${turn}`;
      await daemon.cni("ADD", name, { config: tight });
      expect((await asked(name, "10.42.0.1", "busy")).json().name).toBe(name);
      await daemon.cni("DEL", name, { config: tight });
      expect((await asked(name, "10.42.0.1", "busy")).status).toBe(404);
    }
  } finally {
    stopped = true;
    await Promise.all(asking);
  }
});

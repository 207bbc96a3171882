/** host-local's directories on the nodes of a cluster: nobody reads them. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { added, addedInTheEnd, checked } from "../harness/world/guests.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

let world: World;
const root = mkdtempSync(join(tmpdir(), "holdfast-lease-"));

beforeAll(async () => {
  world = await World.start({ api: "memory" });
});
afterAll(async () => {
  await world?.stop();
  rmSync(root, { recursive: true, force: true });
});

/** As host-local writes it. */
function lease(network: string, address: string, container: string): void {
  mkdirSync(join(root, network), { recursive: true });
  writeFileSync(join(root, network, address), `${container}\r\neth0`);
}

test("a running pod of a default network that host-local served keeps its address, whatever the file says", async () => {
  const node = await world.startNode("reports", { args: ["--host-local-dirs", root] });
  const config = JSON.stringify({
    cniVersion: "1.0.0",
    name: "podnet",
    type: "bridge",
    ipam: { type: "holdfast-ipam", subnet: "10.66.0.0/29" },
  });
  const net = { name: "podnet", config };
  const old = await world.kubevirt.createPod(NAMESPACE, "old-web", { node: node.name });
  const podIPs = [{ ip: "10.66.0.2" }];
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/old-web/status`;
  await world.cluster.api.patch(path, { status: { phase: "Running", podIP: "10.66.0.2", podIPs } });
  lease("podnet", "10.66.0.2", "sandbox-of-old-web");
  const pod = await world.kubevirt.createPod(NAMESPACE, "new-web", { node: node.name });
  await addedInTheEnd(node, { pod, network: net, options: { config, ifname: "eth0" }, vm: null });
  expect((await world.bound(net)).map((one) => one.replace("/29", ""))).toContain(`10.66.0.2 ${old.metadata.uid}`);
  expect((await node.daemon.cni("DEL", "sandbox-of-old-web", { config })).code).toBe(0);
  expect(readdirSync(join(root, "podnet"))).toEqual(["10.66.0.2"]);
  await checked(node);
});

test("an address in a file that no pod reports is given, and the daemon refuses to import the directory", async () => {
  // A `dataDir` that the daemon does not see refuses nothing either.
  const net = await world.network("beside", { subnets: "10.60.0.1/32", dataDir: "/srv/elsewhere" });
  const node = await world.startNode("beside", { args: ["--host-local-dirs", root] });
  lease("beside", "10.60.0.1", "beside-kubernetes");
  expect(await added(node, await world.guest(net, node.name))).toEqual(["10.60.0.1/32"]);
  const { stderr, code } = await node.daemon.cli("import", "--network", "beside");
  expect(code).toBe(1);
  expect(stderr).toContain("there is no import on a node of a cluster");
  expect(stderr).toContain("--kubeconfig FILE");
  await checked(node);
});

/** Where the page's data comes from: containers on a real bridge, and a cluster in which a VM migrates. */
import { describe, expect, test } from "vitest";
import { MemoryCluster } from "../harness/world/memory-cluster.ts";
import { Containers, whyNotReal } from "../network/containers.ts";
import { held, putAllocations, putClaimsOf, putNetwork, rests, usedBy } from "./cluster-objects.ts";
import { TestBrowser, UiProcess, whyNoBrowser } from "./page.ts";
import { bars, facts, rows, SOON, title } from "./reading.ts";
import { apply, claim, UiOfDaemon } from "./ui-of-daemon.ts";

const reason = whyNoBrowser();

describe.skipIf(reason !== null || whyNotReal() !== null)("containers on a real bridge", () => {
  test("are on every page with the addresses that the kernel has, until they are gone", async () => {
    const shown = await UiOfDaemon.start(async () => {});
    const containers = new Containers(shown.daemon);
    try {
      const config = {
        ...{ cniVersion: "1.0.0", name: "blue", type: "bridge", bridge: containers.link("hfu") },
        allowPersistentIPs: true,
        ipam: { type: "holdfast-ipam", subnets: "10.30.0.0/24,fd30::/64", cooldownSeconds: 600 },
      };
      const { node } = (await shown.daemon.get("/v1/status")).json();
      const page = await shown.open();
      // What to do where there is nothing yet.
      await page.getByText("There is no network yet.").waitFor();
      await apply(shown.daemon, [claim("blue", "vm1")]);
      const pod = (name: string) => `IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=${name};K8S_POD_UID=u-${name}`;
      const namespaces = {
        vm: await containers.create("vm"),
        web: await containers.create("web"),
      };
      const args = { vm: `${pod("virt-launcher-vm1")};IPAM_CLAIM=shop/vm1.blue`, web: pod("web") };
      for (const name of ["vm", "web"] as const) {
        const answer = await containers.cni("ADD", `run-${name}`, namespaces[name], config, args[name], "net1");
        expect(answer.code, answer.stdout).toBe(0);
      }
      await expect.poll(async () => (await bars(page)).blue?.[0], SOON).toMatch(/^2 in use, /);
      const plain = async (name: "vm" | "web") =>
        (await containers.kernelAddresses(namespaces[name], "net1")).map((one) => one.split("/")[0] ?? "");
      for (const [name, holder] of [
        ["vm", "claim shop/vm1.blue of VM shop/vm1. It is used by pod shop/virt-launcher-vm1"],
        ["web", "pod shop/web"],
      ] as const)
        for (const address of await plain(name)) {
          await page.goto(`${shown.ui.origin}/networks/blue/addresses/${encodeURIComponent(address)}`);
          await page.getByText(`is held by ${holder}`).waitFor();
        }
      await page.goto(`${shown.ui.origin}/vms/shop/vm1`);
      const addresses = (await rows(page, "Addresses of shop/vm1")).map(([, address]) => address);
      expect(addresses.toSorted()).toEqual((await plain("vm")).toSorted());
      await page.goto(`${shown.ui.origin}/nodes/${node}`);
      expect(await rows(page, `Addresses in use on ${node}`)).toHaveLength(4);
      const deleted = await containers.cni("DEL", "run-web", namespaces.web, config, args.web, "net1");
      expect(deleted.code, deleted.stdout).toBe(0);
      await expect.poll(async () => (await rows(page, `Addresses in use on ${node}`)).length, SOON).toBe(2);
      await page.goto(`${shown.ui.origin}/findings`);
      await page.getByText("Nothing is wrong.").waitFor();
      expect(shown.browser.problems).toEqual([]);
    } finally {
      await containers.remove();
      await shown.stop();
    }
  });
});

test.skipIf(reason !== null)("a cluster: a VM that migrates, its nodes, and what changes by the watch", async () => {
  const cluster = await MemoryCluster.start({ time: "machine" });
  let ui: UiProcess | null = null;
  let browser: TestBrowser | null = null;
  try {
    putNetwork(cluster, "blue", { subnets: "10.0.0.0/24" });
    const [from, to] = [usedBy("node-a", "c1", "virt-launcher-a"), usedBy("node-b", "c2", "virt-launcher-b")];
    const other = held("blue", "10.0.0.8/24", "vm2", [usedBy("node-a", "c3", "virt-launcher-c")]);
    const moving = held("blue", "10.0.0.7/24", "vm1", [from, to]);
    putAllocations(cluster, [moving, other, rests("blue", "10.0.0.9/24")]);
    putClaimsOf(cluster, [moving, other]);
    ui = await UiProcess.start("--kubeconfig", cluster.kubeconfig("admin"));
    browser = await TestBrowser.start();
    const page = await browser.open(ui.url);
    await expect.poll(async () => (await bars(page)).blue?.[0], SOON).toMatch(/^2 in use, 1 cooling down, /);
    const vm = await browser.open(ui.url);
    await vm.goto(`${ui.origin}/vms/shop/vm1`);
    await title(vm, "shop/vm1");
    expect((await facts(vm)).State).toBe("migrating (node-a and node-b)");
    await page.goto(`${ui.origin}/nodes`);
    expect(await rows(page, "Nodes with addresses in use")).toEqual([
      ["node-a", "2", "2"],
      ["node-b", "1", "1"],
    ]);
    await page.getByRole("link", { name: "node-a", exact: true }).click();
    await title(page, "node-a");
    expect(await rows(page, "Addresses in use on node-a")).toHaveLength(2);
    // The migration ends; the watch tells.
    putAllocations(cluster, [held("blue", "10.0.0.7/24", "vm1", [to])]);
    await vm.getByText("running", { exact: true }).waitFor(SOON);
    await expect.poll(async () => (await rows(page, "Addresses in use on node-a")).length, SOON).toBe(1);
    // The server goes away and comes back.
    await cluster.stopApiServer();
    await vm.locator(".notice").waitFor(SOON);
    await vm.getByText("10.0.0.7", { exact: true }).first().waitFor();
    await cluster.startApiServer();
    await vm.locator(".notice").waitFor({ ...SOON, state: "detached" });
    putAllocations(cluster, [held("blue", "10.0.0.7/24", "vm1")]);
    await vm.getByText("stopped", { exact: true }).waitFor(SOON);
    expect(browser.problems).toEqual([]);
  } finally {
    await browser?.stop();
    await ui?.stop();
    await cluster.stop();
  }
});

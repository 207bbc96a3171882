// `make pictures`: the pictures of the page in docs/pictures, of the demo's daemon with more VMs than the demo has.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { parse } from "yaml";
import { Playground } from "../examples/demo/playground.mjs";

const ROOT = join(import.meta.dirname, "..");
const DEMO = join(ROOT, "examples/demo");
const BLUE = join(DEMO, "tenantblue-network.yaml");
const VMS = 64;
/** The page has drawn everything, and what has just come no longer flashes. */
const SETTLED_MS = 2_500;

/** As the demo's network, but one in which a picture can be seen. */
const office = {
  ...JSON.parse(parse(readFileSync(BLUE, "utf8")).spec.config),
  name: "office",
  isGateway: true,
  ipam: {
    type: "holdfast-ipam",
    subnets: "192.168.10.0/24,fd10::/64",
    gateway: "192.168.10.1",
    excludeSubnets: "192.168.10.224/27",
    cooldownSeconds: 600,
  },
};
const definition = (config) => ({
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { name: config.name, namespace: "default" },
  spec: { config: JSON.stringify(config) },
});
const claim = (number) => ({
  apiVersion: "k8s.cni.cncf.io/v1alpha1",
  kind: "IPAMClaim",
  metadata: {
    name: `vm${number}.office`,
    namespace: "default",
    ownerReferences: [
      {
        apiVersion: "kubevirt.io/v1",
        kind: "VirtualMachine",
        name: `vm${number}`,
        uid: `uid-of-vm${number}`,
      },
    ],
  },
  spec: { network: "office", interface: "" },
});

const playground = await Playground.create({ office }, spawn);
let ui = null;
let browser = null;
try {
  await playground.startDaemon();
  const file = join(playground.directory, "office.json");
  const items = [definition(office), ...Array.from({ length: VMS }, (_, number) => claim(number))];
  writeFileSync(file, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  await playground.holdfast("apply", "-f", file, "-f", BLUE, "-f", join(ROOT, "examples/vm1-claim.yaml"));
  const podOf = (number) => {
    const name = `virt-launcher-vm${number}-x7k2p`;
    const pod = `K8S_POD_NAMESPACE=default;K8S_POD_NAME=${name};K8S_POD_UID=uid-of-pod${number}`;
    return `IgnoreUnknown=1;${pod};IPAM_CLAIM=default/vm${number}.office`;
  };
  for (let number = 0; number < VMS; number += 1) await playground.add(`vm${number}`, podOf(number), "office");
  for (let number = 0; number < 12; number += 1) await playground.add(`web${number}`, "", "office");
  for (let number = 0; number < VMS; number += 5) await playground.del(`vm${number}`, podOf(number), "office");
  for (let number = 2; number < 7; number += 1) await playground.del(`web${number}`, "", "office");

  ui = playground.start("ui", "--no-open", "--socket", playground.socket);
  const [url] = await once(createInterface(ui.stdout), "line");
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, locale: "en-GB" });
  const { origin } = new URL(url);
  await page.goto(url);
  for (const [name, path] of [
    ["networks", "/"],
    ["network", "/networks/office"],
    ["address", "/networks/office/addresses/192.168.10.13"],
  ]) {
    await page.goto(`${origin}${path}`);
    await page.waitForTimeout(SETTLED_MS);
    const height = await page.evaluate("document.body.scrollHeight");
    await page.screenshot({
      path: join(ROOT, `docs/pictures/ui-${name}.png`),
      clip: { x: 0, y: 0, width: 1280, height: Math.min(height, 800) },
    });
  }
} finally {
  await browser?.close();
  if (ui !== null) {
    const ended = once(ui, "exit");
    ui.kill("SIGTERM");
    await ended;
  }
  const left = await playground.cleanUp();
  if (left.length > 0) {
    console.error(`not removed: ${left.join(", ")}`);
    process.exitCode = 1;
  }
}

/** DELs that never come: an attachment whose network namespace is gone is ended after the grace, and no other. */
import { beforeEach, expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { pause, until, untilSaid } from "../harness/wait.ts";
import { command, StandaloneNode } from "./standalone-node.ts";
import { attachedTo, boundOn, expectSound, ipsIn } from "./truth.ts";
import { claimManifest, podArgs } from "./wire.ts";

const GRACE_S = 2;
const WATCHING = { args: ["--witness-interval-seconds", "1", "--witness-grace-seconds", String(GRACE_S)] };
const PLAIN = network("plain", { subnets: "10.10.0.0/24", cooldownSeconds: 0 });
const VMS = network("vms", { subnets: "10.12.0.0/24,fd12::/64" }, { allowPersistentIPs: true });
/** Several looks and graces. */
const LONG_MS = (2 * GRACE_S + 3) * 1_000;

beforeEach(requireRoot);

let count = 0;
function netnsOf(node: StandaloneNode): { netns: string; remove: () => void } {
  const name = `holdfast-test-${process.pid}-${count++}`;
  return { netns: node.addNetns(name), remove: () => command("ip", "netns", "delete", name) };
}

async function add(daemon: TestDaemon, id: string, options: Parameters<TestDaemon["cni"]>[2]): Promise<string> {
  const { code, stdout } = await daemon.cni("ADD", id, options);
  expect(code, stdout).toBe(0);
  return stdout;
}

test("a network namespace that is gone ends its attachment after the grace, living and unseen ones stay, and a claim keeps its addresses", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon(WATCHING);
  await daemon.post("/v1/apply", { objects: [claimManifest("vm", "vms")] });
  const [living, vanished, vanishedToo, ofVm] = [netnsOf(node), netnsOf(node), netnsOf(node), netnsOf(node)];
  await add(daemon, "living", { config: PLAIN, netns: living.netns });
  await add(daemon, "vanished", { config: PLAIN, netns: vanished.netns });
  await add(daemon, "pod", { config: PLAIN, netns: vanishedToo.netns, args: podArgs("pod") });
  await add(daemon, "never-seen", { config: PLAIN, netns: "/run/netns/holdfast-test-nobody" });
  const ips = ipsIn(await add(daemon, "launcher", { config: VMS, netns: ofVm.netns, args: podArgs("launcher", "vm") }));
  await pause(LONG_MS / 2);
  expect(await attachedTo(daemon, "plain")).toEqual(["living", "never-seen", "pod", "vanished"]);

  const goneMs = performance.now();
  for (const one of [vanished, vanishedToo, ofVm]) one.remove();
  await until(async () => (await attachedTo(daemon, "plain")).length === 2, "the witness");
  expect(performance.now() - goneMs).toBeGreaterThan(GRACE_S * 1_000);
  await until(async () => (await attachedTo(daemon, "vms")).length === 0, "the witness");
  expect(await attachedTo(daemon, "plain")).toEqual(["living", "never-seen"]);
  expect((await boundOn(daemon, "plain")).size).toBe(2);
  expect((await boundOn(daemon, "vms")).size).toBe(2);
  await untilSaid(() => daemon.log, "its network namespace is gone and no DEL came; ended");
  const { items } = (await daemon.get("/v1/history?network=plain")).json();
  expect(items.filter((one: { endedBy: string | null }) => one.endedBy === "namespace gone")).toHaveLength(2);
  await expectSound(daemon);

  const next = netnsOf(node);
  const again = { config: VMS, netns: next.netns, args: podArgs("launcher-2", "vm") };
  expect(ipsIn(await add(daemon, "launcher-2", again))).toBe(ips);
  expect(await daemon.cni("DEL", "vanished", { config: PLAIN })).toMatchObject({ code: 0, stderr: "" });
  await pause(LONG_MS / 2);
  expect(await attachedTo(daemon, "plain")).toEqual(["living", "never-seen"]);
  expect(await attachedTo(daemon, "vms")).toEqual(["launcher-2"]);
});

test("a network namespace that is gone after a restart ends its attachment too, after a grace from the restart", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon(WATCHING);
  const [living, vanished, remade] = [netnsOf(node), netnsOf(node), netnsOf(node)];
  await add(first, "living", { config: PLAIN, netns: living.netns });
  await add(first, "vanished", { config: PLAIN, netns: vanished.netns });
  await add(first, "remade", { config: PLAIN, netns: remade.netns });
  await first.end("SIGKILL");
  for (const one of [vanished, remade]) one.remove();
  await pause(GRACE_S * 1_000);

  const daemon = await node.daemon(WATCHING);
  const readyMs = performance.now();
  // The runtime made the container anew, under its old ID, before the grace was over.
  const anew = netnsOf(node);
  await add(daemon, "remade", { config: PLAIN, netns: anew.netns });
  await until(async () => !(await attachedTo(daemon, "plain")).includes("vanished"), "the witness");
  expect(performance.now() - readyMs).toBeGreaterThan(GRACE_S * 1_000);
  await pause(LONG_MS / 2);
  expect(await attachedTo(daemon, "plain")).toEqual(["living", "remade"]);
  await expectSound(daemon);
});

test("a VM whose DEL was lost starts again at once, because a sandbox without its namespace does not hold the claim", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon({ args: ["--witness-grace-seconds", "3600"] });
  await daemon.post("/v1/apply", { objects: [claimManifest("vm", "vms")] });
  const [old, fresh] = [netnsOf(node), netnsOf(node)];
  const ips = ipsIn(await add(daemon, "old", { config: VMS, netns: old.netns, args: podArgs("old", "vm") }));
  const early = { config: VMS, netns: fresh.netns, args: podArgs("new", "vm") };
  expect((await daemon.cni("ADD", "new", early)).json()).toMatchObject({ code: 124 });
  old.remove();
  expect(ipsIn(await add(daemon, "new", early))).toBe(ips);
  expect(await attachedTo(daemon, "vms")).toEqual(["new"]);
  expect((await daemon.cni("DEL", "old", { config: VMS })).code).toBe(0);
  expect(await attachedTo(daemon, "vms")).toEqual(["new"]);
  await expectSound(daemon);
});

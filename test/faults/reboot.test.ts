/**
 * After a reboot no container of before is alive: their addresses are free, claims keep theirs, and DELs that come late
 * harm nobody.
 */
import { readdirSync, writeFileSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { forgetBoot, network, runShim, type TestDaemon } from "../harness/daemon.ts";
import { requireRoot } from "../harness/needs.ts";
import { until, untilSaid } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { allAllocations, attachedTo, boundOn, expectSound, ipsIn } from "./truth.ts";
import { claimManifest, podArgs, postCni, type WireOptions } from "./wire.ts";

const PLAIN = network("plain", { subnets: "10.10.0.0/24" });
/** For more attachments than are ended in one step. */
const MANY = network("many", { subnets: "10.16.0.0/16" });
const VMS = network("vms", { subnets: "10.12.0.0/24,fd12::/64" }, { allowPersistentIPs: true });
const NEXT_BOOT = "11111111-2222-4333-8444-555555555555";

beforeEach(requireRoot);

/** Runs a daemon on a machine that says it is in another boot. */
function inBoot(node: StandaloneNode, bootId: string): readonly string[] {
  const file = node.path(`boot-${bootId}`);
  writeFileSync(file, `${bootId}\n`);
  return ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"', file];
}

async function add(daemon: TestDaemon, id: string, options: WireOptions): Promise<string> {
  const answer = await postCni(daemon, "ADD", id, options);
  expect(answer.status, answer.body).toBe(200);
  return answer.body;
}

const vm = (pod: string) => ({ config: VMS, args: podArgs(pod, "vm") });

/** A daemon with containers, a pod and a VM, killed by the power going off. */
async function beforeReboot(node: StandaloneNode): Promise<{ ips: string; former: TestDaemon }> {
  const former = await node.daemon();
  await former.post("/v1/apply", { objects: [claimManifest("vm", "vms"), claimManifest("stopped", "vms")] });
  const many = Array.from({ length: 450 }, (_, index) => add(former, `c-${index}`, { config: MANY }));
  await Promise.all(many);
  for (const id of ["a", "b", "c"]) await add(former, id, { config: PLAIN });
  await add(former, "pod", { config: PLAIN, args: podArgs("pod") });
  await add(former, "stopped-vm", { config: VMS, args: podArgs("stopped-vm", "stopped") });
  await postCni(former, "DEL", "stopped-vm", { config: VMS });
  const ips = ipsIn(await add(former, "launcher-1", vm("launcher-1")));
  await former.end("SIGKILL");
  forgetBoot(node.directory);
  return { ips, former };
}

test("a reboot ends the attachments of the boot before, and claims keep their addresses", async () => {
  const node = new StandaloneNode();
  const { ips } = await beforeReboot(node);
  const daemon = await node.daemon({ wrapper: inBoot(node, NEXT_BOOT) });
  await untilSaid(() => daemon.log, "455 attachments of earlier boots ended");
  await expectSound(daemon);
  const bound = (await allAllocations(daemon)).filter((one) => one.state === "Bound");
  expect(bound.map(({ owner }) => owner.name).sort()).toEqual(["stopped", "stopped", "vm", "vm"]);
  expect(bound.flatMap(({ attachments }) => attachments)).toEqual([]);
  const { items } = (await daemon.get("/v1/history?network=plain")).json();
  expect(items.map((one: { endedBy: string }) => one.endedBy)).toEqual(Array(4).fill("reboot"));

  const now = { bootId: NEXT_BOOT, bootUs: 1_000 }; // The clock of a boot starts at zero: smaller than any stamp of before.
  expect(ipsIn(await add(daemon, "launcher-2", { ...vm("launcher-2"), ...now }))).toBe(ips);
  await add(daemon, "a", { config: PLAIN, ...now });
  await expectSound(daemon);
  await daemon.end("SIGKILL");
  const again = await node.daemon({ wrapper: inBoot(node, NEXT_BOOT) });
  expect(await attachedTo(again, "plain")).toEqual(["a"]);
  expect(await attachedTo(again, "vms")).toEqual(["launcher-2"]);
});

test("DELs of the boot before, spooled before the reboot or delivered after it, end nothing of the new boot", async () => {
  const node = new StandaloneNode();
  const { ips, former } = await beforeReboot(node);
  const away = { socket: former.socket, spool: former.spool };
  for (const id of ["a", "b", "launcher-1"]) {
    const config = id === "launcher-1" ? VMS : PLAIN;
    expect((await runShim("DEL", id, { ...away, config })).code).toBe(0);
  }
  expect(readdirSync(former.spool)).toHaveLength(3);

  const daemon = await node.daemon({ wrapper: inBoot(node, NEXT_BOOT) });
  expect(readdirSync(daemon.spool)).toEqual([]);
  let nowUs = 1_000;
  const now = () => ({ bootId: NEXT_BOOT, bootUs: nowUs++ });
  await add(daemon, "a", { config: PLAIN, ...now() });
  await add(daemon, "pod", { config: PLAIN, args: podArgs("pod"), ...now() });
  await add(daemon, "launcher-1", { ...vm("launcher-1"), ...now() });

  for (const id of ["a", "pod", "launcher-1"]) {
    // Without a daemon's word the real plugin binary stamps what the kernel says, which here is still the old boot.
    await runShim("DEL", id, { socket: node.path("nobody"), spool: daemon.spool, config: {} });
  }
  await until(() => readdirSync(daemon.spool).length === 0, "the spool to be drained");
  expect(await attachedTo(daemon, "plain")).toEqual(["a", "pod"]);
  expect(await attachedTo(daemon, "vms")).toEqual(["launcher-1"]);
  expect([...(await boundOn(daemon, "vms")).keys()].sort()).toEqual(
    expect.arrayContaining((JSON.parse(ips) as { address: string }[]).map(({ address }) => address.split("/")[0])),
  );
  await expectSound(daemon);

  expect((await postCni(daemon, "DEL", "a", { config: PLAIN, ...now() })).status).toBe(200);
  expect(await attachedTo(daemon, "plain")).toEqual(["pod"]);
});

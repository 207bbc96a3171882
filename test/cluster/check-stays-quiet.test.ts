/** `holdfast check` while a VM lives an ordinary life: who runs it as a probe hears of faults, and of nothing else. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkCluster } from "../../admin/cluster/check.ts";
import type { Controller } from "../../controller/controller.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { sleep } from "../../platform/time.ts";
import type { KubeObject } from "../harness/kube-api.ts";
import { claimName, type Vm } from "../harness/kubevirt.ts";
import { interfaceOf } from "../harness/world/kubevirt-objects.ts";
import { NAMESPACE, type Network } from "../harness/world/network.ts";
import { World } from "../harness/world/world.ts";

/** The default of `--grace`. */
const GRACE_SECONDS = 120;
/** Between two checks. */
const PAUSE_MS = 3_000;
/**
 * Longer than the grace: so old is everything in the cluster when a step begins, and what a check has begun to watch is
 * over.
 */
const AGE_MS = (GRACE_SECONDS + 10) * 1_000;
/** Of the controller, as it is shipped. */
const SHIPPED = { sweepIntervalSeconds: 10, sweepGraceSeconds: 30 };

let world: World;
let controller: Controller;
let api: KubeApi;

beforeAll(async () => {
  world = await World.start({ api: "memory", nodes: ["node-a", "node-b"] });
  await world.stopImporter();
  controller = await world.startController(SHIPPED);
  api = world.cluster.connect("admin")("", world.cluster.time.clock);
});
afterAll(() => world?.stop());

/** Everything that is reported from now on, of the cluster and of each node, with the step in which it was. */
class Probe {
  readonly reported: string[] = [];
  longestMs = 0;
  step = "";
  #isEnded = false;
  readonly #running: Promise<unknown>;

  constructor() {
    this.#running = Promise.all([this.#watch(), ...world.nodes.map(({ name }) => this.#watchNode(name))]);
  }

  async end(): Promise<void> {
    this.#isEnded = true;
    await world.cluster.time.run(this.#running);
  }

  async #watch(): Promise<void> {
    const { clock } = world.cluster.time;
    while (!this.#isEnded) {
      const beganMs = clock.monotonicMs();
      const { findings } = await checkCluster(api, GRACE_SECONDS);
      this.longestMs = Math.max(this.longestMs, clock.monotonicMs() - beganMs);
      for (const { message } of findings) this.reported.push(`${this.step}: ${message}`);
      await sleep(clock, PAUSE_MS);
    }
  }

  async #watchNode(name: string): Promise<void> {
    while (!this.#isEnded) {
      const answer = await world.node(name).daemon.get("/v1/check");
      for (const { message } of answer.json().findings) this.reported.push(`${this.step}, ${name}: ${message}`);
      await sleep(world.cluster.time.clock, PAUSE_MS);
    }
  }
}

const nic = (logical: string) => ({ ifname: interfaceOf(logical) });
const logicals = (vm: Vm) => vm.networks.map(({ logical }) => logical);

test.each([
  ["", {}],
  [" on a network that retains", { retainSeconds: 3_600 }],
])(
  "check is quiet through every ordinary story of a VM%s",
  async (suffix, ipam) => {
    const name = suffix === "" ? "plain" : "retains";
    const network = await world.network(name, {
      subnets: "10.7.0.0/24,fd07::/64",
      cooldownSeconds: 5,
      ...ipam,
    });
    const probe = new Probe();
    const step = async (what: string, act: () => Promise<void>) => {
      await world.advance(AGE_MS);
      probe.step = what;
      await act();
    };
    let vm = await vmOn(network, name);
    let whole = vm;
    let pod: KubeObject;
    let ips: string[];
    const start = async (node: string) => {
      ({ pod } = await world.kubevirt.startVm(vm, node));
      const given: string[] = [];
      for (const logical of logicals(vm)) {
        // As a kubelet does: what the predecessor had is retained for this one only once the controller has judged it.
        const served = async () => (await world.add(pod, network, nic(logical))).code === 0;
        await world.until(served, `${logical} to be served`, AGE_MS);
        given.push(...(await world.given(pod, network, nic(logical))));
      }
      return given;
    };
    const gone = async (one: KubeObject) => {
      for (const logical of logicals(vm)) await world.del(one, network, nic(logical));
    };
    const stop = () => world.kubevirt.stopVm(vm, { meanwhile: () => gone(pod) });
    const target = async (node: string) => {
      const one = await world.kubevirt.migrate(vm, node);
      for (const logical of logicals(vm)) await world.given(one, network, nic(logical));
      return one;
    };
    await step("start", async () => {
      ips = await start("node-a");
    });
    await step("stop", stop);
    await step("start again", async () => expect(await start("node-b")).toEqual(ips));
    await step("migrate", async () => {
      const to = await target("node-a");
      await world.advance(10_000);
      await world.kubevirt.finishPod(pod);
      await gone(pod);
      pod = to;
    });
    await step("a migration that fails", async () => {
      const to = await target("node-b");
      await world.kubevirt.failMigration(to);
      await gone(to);
    });
    await step("crash", async () => {
      const lost = pod;
      await world.kubevirt.finishPod(lost, "Failed");
      await world.kubevirt.stopVm(vm, { remove: false });
      expect(await start("node-b")).toEqual(ips);
      await gone(lost);
    });
    await step("unplug", async () => {
      await world.del(pod, network, nic("second"));
      whole = vm;
      vm = await world.kubevirt.changeNetworks(vm, vm.networks.slice(0, 1));
      expect((await world.readClaim(`${vm.name}.second`))?.status.ips).toEqual(ips.slice(2));
    });
    await step("delete while it runs", async () => {
      await world.kubevirt.deleteVm(whole, "Background", { meanwhile: () => gone(pod) });
    });
    await step("create and start again", async () => {
      vm = await vmOn(network, name);
      const again = await start("node-a");
      if (name === "retains") expect(again).toEqual(ips);
    });
    await step("stop before a restore", stop);
    await step("delete while it is stopped, and restore at once", async () => {
      await world.kubevirt.deleteVm(vm);
      vm = await vmOn(network, name);
      await start("node-b");
    });
    await step("delete", async () => {
      await stop();
      await world.kubevirt.deleteVm(vm);
    });
    await world.advance(AGE_MS);
    await probe.end();
    expect(probe.reported).toEqual([]);
    // It waited for the controller, and not for its own grace.
    expect(probe.longestMs).toBeLessThan(GRACE_SECONDS * 500);
  },
  300_000,
);

function vmOn(network: Network, name: string): Promise<Vm> {
  const networks = ["first", "second"].map((logical) => ({
    logical,
    nad: network.name,
    network: network.name,
  }));
  return world.kubevirt.createVm(NAMESPACE, `vm-${name}`, networks);
}

test("without a controller what a deleted VM had is reported, once that has stood for the grace", async () => {
  const network = await world.network("leaks", { subnets: "10.8.0.0/24" });
  const vm = await world.vm("leaks", network);
  const { pod } = await world.kubevirt.startVm(vm, "node-a");
  const [ip] = await world.given(pod, network, nic("leaks"));
  await world.advance(AGE_MS);
  await controller.stop();
  await world.del(pod, network, nic("leaks"));
  await world.kubevirt.deleteVm(vm);
  const { clock } = world.cluster.time;
  const beganMs = clock.monotonicMs();
  const { findings } = await world.cluster.time.run(checkCluster(api, GRACE_SECONDS));
  expect(findings.map(({ message }) => message)).toEqual([
    `${ip} of network leaks is held by claim ${NAMESPACE}/${claimName(vm, "leaks")}, which is gone, with every pod that used it`,
  ]);
  expect(clock.monotonicMs() - beganMs).toBeGreaterThanOrEqual(GRACE_SECONDS * 1_000);
});

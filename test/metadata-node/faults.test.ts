import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { run, TestDaemon } from "../harness/daemon.ts";
import { leftOver } from "../harness/metadata/parts.ts";
import { pause, until } from "../harness/wait.ts";
import { whyNotReal } from "../network/containers.ts";
import { answersOf, BOOT, BOOTS, type BootAnswer } from "./boot.ts";
import { GuestProgram } from "./guest-program.ts";
import { type AttachedGuest, MetadataNode } from "./metadata-node.ts";

const UID = "11111111-1111-4111-8111-111111111111";
const PATH = "/openstack/latest/meta_data.json";

/** Asks again and again until told to stop, six times at least; every status that came. */
function keepAsking(guest: AttachedGuest): { stop(): Promise<number[]> } {
  const statuses: number[] = [];
  let stopped = false;
  const asking = (async () => {
    while (!stopped || statuses.length < 6) statuses.push((await guest.ask(PATH)).status);
  })();
  return {
    stop: async () => {
      stopped = true;
      await asking;
      return statuses;
    },
  };
}

/** The processes of haproxy that serve a run directory, whoever started them. */
async function haproxiesOf(runDir: string): Promise<number[]> {
  const { stdout } = await run("ps", ["-eo", "pid=,comm=,args="]);
  const found = stdout.split("\n").filter((line) => /^\s*\d+ haproxy /.test(line) && line.includes(runDir));
  return found.map((line) => Number(line.trim().split(" ")[0]));
}

describe.skipIf(whyNotReal() !== null)("processes that end meanwhile", () => {
  let node: MetadataNode;
  let vm: AttachedGuest;
  beforeEach(async () => {
    node = await MetadataNode.start();
    vm = await node.vm("vm1", node.network("faulty"), UID);
    await node.untilServed(vm);
  });
  afterEach(() => node.stop());

  const uuid = async () => JSON.parse((await vm.ask(PATH)).body).uuid;

  test("without holdfast metadata guests get a 503 with a plain sentence, and are served as soon as it is back", async () => {
    await node.metadata.server.end("SIGKILL");
    const away = await vm.ask(PATH);
    expect(away.status).toBe(503);
    expect(away.body.trim()).toMatch(/^[A-Z][^<>]*\.$/);
    await node.metadata.server.run();
    await node.untilServed(vm);
    expect(await uuid()).toBe(UID);
  });

  test("without the daemon guests get a 503, and are served as before once it is back", async () => {
    await node.daemon.end("SIGKILL");
    // What was true when it ended is used for a second: nobody can be given an address meanwhile.
    await until(async () => (await vm.ask(PATH)).status === 503, "503 without a daemon");
    const again = await TestDaemon.start({ directory: node.daemon.directory });
    try {
      await until(async () => (await vm.ask(PATH)).status === 200, "metadata after the daemon");
      expect(await uuid()).toBe(UID);
      // What the new daemon wants is what there is: nothing was torn down in between.
      const other = await vm.ask("/latest/meta-data/local-ipv4");
      expect(other.body).toBe(vm.address);
    } finally {
      await again.end();
    }
  });

  test("without metadata-net guests are served, and its successor takes over", async () => {
    const asking = keepAsking(vm);
    await node.metadata.net?.end("SIGKILL");
    await pause(500);
    node.metadata.startNet();
    const late = await node.vm("late", node.network("late"), "22222222-2222-4222-8222-222222222222");
    await node.untilServed(late);
    const statuses = await asking.stop();
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
  });

  test("guests boot with their own data while metadata, haproxy and metadata-net are killed", async () => {
    const second = "22222222-2222-4222-8222-222222222222";
    const other = await node.vm("vm2", node.network("faulty2"), second);
    await node.untilServed(other);
    const boots = [vm, other].map((guest) => new GuestProgram(guest, BOOTS, [JSON.stringify(BOOT)]));
    try {
      for (const one of boots) await one.said("begun");
      for (let turn = 0; turn < 2; turn += 1) {
        await node.metadata.server.end("SIGKILL");
        await node.metadata.server.run();
        await node.untilServed(vm);
        const haproxies = await haproxiesOf(node.metadata.runDir);
        expect(haproxies.length).toBeGreaterThan(0);
        // One of them may be gone with another.
        await run("kill", ["-KILL", ...haproxies.map(String)]);
        await node.untilServed(vm);
        await node.metadata.net?.end("SIGKILL");
        node.metadata.startNet();
        await node.untilServed(vm);
      }
    } finally {
      await Promise.all(boots.map((one) => one.stop()));
    }
    const answers = (await Promise.all(boots.map((one) => one.ended()))).map(answersOf);
    for (const [index, uuid] of [UID, second].entries()) {
      const own = answers[index] as BootAnswer[];
      expect(own.filter(({ status }) => status !== 200 && status !== 404)).toEqual([]);
      const told = own.filter(({ path }) => path.endsWith("/meta_data.json"));
      expect(told.length).toBeGreaterThan(0);
      expect(new Set(told.map(({ body }) => JSON.parse(body).uuid))).toEqual(new Set([uuid]));
    }
    await node.end(other);
  });

  test("no request of a guest fails while other networks come and go", async () => {
    const asking = keepAsking(vm);
    for (let turn = 0; turn < 5; turn += 1) {
      const other = await node.guest(`other${turn}`, node.network(`other${turn}`));
      expect((await other.ask("/")).status).toBe(200);
      await node.end(other);
    }
    const statuses = await asking.stop();
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
  });
});

test.skipIf(whyNotReal() !== null)(
  "with metadata off, or after metadata-net --remove, nothing is left on the node",
  async () => {
    const node = await MetadataNode.start({ daemonArgs: ["--metadata", "off"] });
    try {
      const guest = await node.guest("quiet", node.network("quiet"));
      const { stdout } = await run("ip", ["-n", guest.namespace, "route"]);
      expect(stdout).not.toContain("169.254.169.254");
      expect(await leftOver(node.metadata.runDir)).toEqual([]);
    } finally {
      await node.stop();
    }
    const second = await MetadataNode.start();
    try {
      await second.guest("loud", second.network("loud"));
      expect((await leftOver(second.metadata.runDir)).length).toBeGreaterThan(0);
    } finally {
      await second.stop();
    }
    expect(await leftOver(second.metadata.runDir)).toEqual([]);
  },
);

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { run, TestDaemon, until } from "../harness/daemon.ts";
import { ask } from "../harness/metadata-node.ts";
import { whyNotReal } from "../network/containers.ts";
import { type Guest, leftOver, madeByMetadataNet, Stage } from "./stage.ts";

const UID = "11111111-1111-4111-8111-111111111111";
const PATH = "/openstack/latest/meta_data.json";

/** Asks again and again until told to stop; every status that came. */
function keepAsking(guest: Guest): { stop(): Promise<number[]> } {
  const statuses: number[] = [];
  let stopped = false;
  const asking = (async () => {
    while (!stopped) statuses.push((await ask(guest.namespace, PATH)).status);
  })();
  return {
    stop: async () => {
      stopped = true;
      await asking;
      return statuses;
    },
  };
}

describe.skipIf(whyNotReal() !== null)("parts that end in the middle", () => {
  let stage: Stage;
  let vm: Guest;
  beforeEach(async () => {
    stage = await Stage.start();
    vm = await stage.vm("vm1", stage.network("faulty"), UID);
    await stage.untilServed(vm);
  });
  afterEach(() => stage.stop());

  const uuid = async () => JSON.parse((await ask(vm.namespace, PATH)).body).uuid;

  test("holdfast metadata killed: 503 in a plain sentence, and served again as soon as it is back", async () => {
    await stage.metadata.kill("server", "SIGKILL");
    const away = await ask(vm.namespace, PATH);
    expect(away.status).toBe(503);
    expect(away.body.trim()).toMatch(/^[A-Z][^<>]*\.$/);
    await stage.metadata.startServer();
    await stage.untilServed(vm);
    expect(await uuid()).toBe(UID);
  });

  test("the daemon killed: 503 while nobody can say who asks, then served as before", async () => {
    await stage.daemon.end("SIGKILL");
    // What was true when it ended is used for a second: nobody can be given an address meanwhile.
    await until(async () => (await ask(vm.namespace, PATH)).status === 503, "503 without a daemon");
    const again = await TestDaemon.start({ folder: stage.daemon.folder });
    try {
      await until(async () => (await ask(vm.namespace, PATH)).status === 200, "metadata after the daemon");
      expect(await uuid()).toBe(UID);
      // What the new daemon wants is what there is: nothing was torn down in between.
      const other = await ask(vm.namespace, "/latest/meta-data/local-ipv4");
      expect(other.body).toBe(vm.address);
    } finally {
      await again.end();
    }
  });

  test("metadata-net killed: guests do not notice, and its successor takes over what is there", async () => {
    const asking = keepAsking(vm);
    await stage.metadata.kill("net", "SIGKILL");
    await new Promise((resolve) => setTimeout(resolve, 500));
    stage.metadata.startNet();
    const late = await stage.vm("late", stage.network("late"), "22222222-2222-4222-8222-222222222222");
    await stage.untilServed(late);
    const statuses = await asking.stop();
    expect(statuses.length).toBeGreaterThan(0);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
  });

  test("networks come and go beside a guest that keeps asking: not one of its requests fails", async () => {
    const asking = keepAsking(vm);
    for (let turn = 0; turn < 5; turn += 1) {
      const other = await stage.guest(`other${turn}`, stage.network(`other${turn}`));
      // An ADD waits for the listener for three seconds, which a busy machine may need longer for.
      await until(async () => (await ask(other.namespace, "/")).status === 200, "the listener");
      await stage.end(other);
    }
    const statuses = await asking.stop();
    expect(statuses.length).toBeGreaterThan(5);
    expect(statuses.filter((status) => status !== 200)).toEqual([]);
  });
});

test.skipIf(whyNotReal() !== null)(
  "switched off by the daemon's setting, or stopped: nothing is left on the node",
  async () => {
    const before = await madeByMetadataNet();
    const stage = await Stage.start({ daemonArgs: ["--metadata", "off"] });
    try {
      const guest = await stage.guest("quiet", stage.network("quiet"));
      const { stdout } = await run("ip", ["-n", guest.namespace, "route"]);
      expect(stdout).not.toContain("169.254.169.254");
      expect(await ownOf(stage)).toEqual([]);
    } finally {
      await stage.stop();
    }
    const second = await Stage.start();
    await second.guest("loud", second.network("loud"));
    expect((await ownOf(second)).length).toBeGreaterThan(0);
    const own = await ownOf(second);
    await second.stop();
    expect((await leftOver(before)).filter((name) => own.includes(name))).toEqual([]);
  },
);

/** What metadata-net made for this stage, told by the names in its own configuration of haproxy. */
async function ownOf(stage: Stage): Promise<string[]> {
  const { stdout } = await run("cat", [`${stage.metadata.runDir}/haproxy.cfg`]);
  const spaces = [...stdout.matchAll(/namespace (\S+)/g)].map((match) => match[1] as string);
  return (await madeByMetadataNet()).filter((name) => spaces.includes(name));
}

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { BalancingNode } from "./balancing-node.ts";
import { type Pod, whyNoOvn, Zone } from "./zone.ts";

// Parts are killed while a guest asks without a pause: what it is answered is always its own backend's answer.

const BLUE = "cluster_udn_blue";
const ANSWER = "src=10.20.0.5 at=blue";

let zone: Zone;
let node: BalancingNode;
let guest: Pod;
describe.skipIf(whyNoOvn() !== null)("OVN processes that are killed", () => {
  beforeEach(async () => {
    zone = await Zone.start("node-a");
    node = await BalancingNode.start("node-a", zone.central.northbound);
    const blue = await zone.network(BLUE, { net: 20 });
    guest = await zone.pod(blue, "10.20.0.5");
    await zone.answerIn(await zone.pod(blue, "10.20.0.30"), "blue");
    await node.want({ [BLUE]: ["10.20.0.30:8080"] });
    await until(async () => (await guest.asks(1)) === ANSWER, "the first answer");
  });
  afterEach(async () => {
    await node?.stop();
    await zone?.stop();
  });

  /** Asks all the time while `act` is under way, and a while after it; the answers. */
  async function answersDuring(act: () => Promise<unknown>): Promise<string[]> {
    const answers: string[] = [];
    let isOver = false;
    const load = async () => {
      while (!isOver || answers.length <= 10) answers.push(await guest.asks(2));
    };
    const loads = [load(), load()];
    await act();
    await pause(500);
    isOver = true;
    await Promise.all(loads);
    return answers;
  }

  const others = (answers: readonly string[]) => answers.filter((one) => ![ANSWER, "status 0"].includes(one));

  test("metadata-net is killed and started under load, and no request fails", async () => {
    const answers = await answersDuring(async () => {
      for (let i = 0; i < 3; i++) {
        await node.endNet("SIGKILL");
        await pause(100);
        node.startNet();
        await node.want({ [BLUE]: ["10.20.0.30:8080"] });
      }
    });
    expect(new Set(answers)).toEqual(new Set([ANSWER]));
  });

  test("ovn-controller is killed and started under load, and guests are answered afterwards by the right backend only", async () => {
    const answers = await answersDuring(async () => {
      for (let i = 0; i < 3; i++) {
        await zone.chassis.endController("SIGKILL");
        await pause(200);
        zone.chassis.startController();
        await zone.central.settle();
      }
    });
    expect(others(answers)).toEqual([]);
    await until(async () => (await guest.asks(1)) === ANSWER, "answers afterwards");
  });

  test("ovs-vswitchd is killed and started under load, and guests wait for the right backend", async () => {
    const { ovs } = zone.chassis;
    const answers = await answersDuring(async () => {
      await ovs.endSwitch("SIGKILL");
      await pause(200);
      await ovs.startSwitch(zone.namespace);
      await until(async () => (await guest.asks(1)) === ANSWER, "answers after the start");
    });
    expect(others(answers)).toEqual([]);
  });

  test("the northbound database is killed under load: guests are answered, and the row is the same when it is back", async () => {
    const [before] = await zone.balancers();
    const answers = await answersDuring(async () => {
      await zone.central.endDatabase("nb", { signal: "SIGKILL" });
      await pause(300);
      await zone.central.startDatabase("nb");
    });
    expect(new Set(answers)).toEqual(new Set([ANSWER]));
    expect(await zone.balancers()).toEqual([before]);
    await node.want({ [BLUE]: [] });
    await until(async () => (await guest.connects()) === "refused", "the next change to be carried out");
  });
});

import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pause, until } from "../harness/wait.ts";
import { BalancingNode } from "./balancing-node.ts";
import { whyNoOvn, Zone } from "./zone.ts";

// `holdfast metadata` has no rights on the node. What if somebody else speaks in its place to the process that is root?

const BLUE = "cluster_udn_blue";
const VIP = "169.254.169.254:80";
const BACKEND = "10.20.0.30:8080";

let zone: Zone;
let node: BalancingNode;
describe.skipIf(whyNoOvn() !== null)("a process that sends false balancer data", () => {
  beforeEach(async () => {
    zone = await Zone.start("node-a", { wired: false });
    node = await BalancingNode.start("node-a", zone.central.northbound);
    await zone.network(BLUE, { net: 20 });
    await node.want({ [BLUE]: [BACKEND] });
  });
  afterEach(async () => {
    await node?.stop();
    await zone?.stop();
  });

  const vips = async () => (await zone.balancers()).map((row) => row.vips);
  const answers = (body: object) => (answer: ServerResponse) => {
    answer.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const wanted = (version: string, more: object = {}) => ({
    version,
    node: "node-a",
    balancers: [{ network: BLUE, backends: [BACKEND], ports: [] }],
    ...more,
  });

  test("leads guests to nothing that is not on their own network", async () => {
    await node.want({ [BLUE]: ["10.96.0.1:443", BACKEND, "192.168.1.1:22", "10.20.0.31:70000"] });
    expect(await vips()).toEqual([{ [VIP]: BACKEND }]);
    await until(() => node.report?.problems.length === 3, "the problems to be told");
    expect(node.report?.problems[0]).toMatchObject({ network: BLUE, kind: "failed" });
    expect(node.report?.problems[0]?.problem).toMatch(/10\.96\.0\.1:443.*10\.20\.0\.0\/16/);
    await node.want({ [BLUE]: [BACKEND] }, [{ port: 22, backends: ["192.168.1.1:22"] }]);
    expect(await vips()).toEqual([{ [VIP]: BACKEND, "169.254.169.254:22": "" }]);
    await node.want({ [BLUE]: ["10.96.0.1:443"] });
    expect(await vips()).toEqual([{ [VIP]: "" }]);
  });

  test("cannot use up memory with an endless answer", async () => {
    const chunk = "x".repeat(1 << 16);
    node.answer((answer) => {
      answer.writeHead(200);
      const more = () => {
        while (!answer.destroyed && answer.write(chunk));
      };
      answer.on("drain", more);
      more();
    });
    await until(() => node.log.includes("longer than any can be"), "the answer to be refused");
    node.answer(null);
    await node.want({ [BLUE]: ["10.20.0.31:8080"] });
    expect(node.netHasEnded).toBe(false);
    expect(await vips()).toEqual([{ [VIP]: "10.20.0.31:8080" }]);
  });

  test("cannot stop the others with a network that is named twice", async () => {
    const twice = [{ network: BLUE, backends: [], ports: [] }, ...wanted("x").balancers];
    node.answer(answers(wanted("twice", { balancers: twice })));
    await until(() => node.log.includes("expected each network once"), "the answer to be refused");
    expect(await vips()).toEqual([{ [VIP]: BACKEND }]);
  });

  test("has nothing written to another node's database", async () => {
    await zone.central.nbctl("set", "NB_Global", ".", "name=node-b");
    node.answer(answers(wanted("b", { node: "node-b", balancers: [{ network: BLUE, backends: [], ports: [] }] })));
    const told = () => node.report?.problems[0]?.problem ?? "";
    await until(() => told().includes("node-b"), "the problem to be told");
    await pause(300);
    expect(await vips()).toEqual([{ [VIP]: BACKEND }]);
  });

  test("cannot keep it busy with an endless stream of updates", async () => {
    let asked = 0;
    node.answer((answer) => {
      asked += 1;
      answers(wanted(`news-${asked}`))(answer);
    });
    await until(() => asked > 1, "the first news");
    const [before, startMs] = [asked, performance.now()];
    await pause(1_000);
    // Fifty a second, however long the pause was.
    expect((asked - before) / (performance.now() - startMs)).toBeLessThan(0.07);
  });
});

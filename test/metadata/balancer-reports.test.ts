import { once } from "node:events";
import { rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BALANCERS_PATH } from "../../guests/ovn/balancers-wire.ts";
import { SERVICES_PATH } from "../../guests/services/services-wire.ts";
import { BalancerServer } from "../../metadata/balancers/balancer-server.ts";
import { BalancerService } from "../../metadata/balancers/balancer-service.ts";
import { ServiceRelay } from "../../metadata/relay/service-relay.ts";
import { systemClock } from "../../platform/time.ts";
import { newDirectory } from "../harness/daemon.ts";

// What metadata-net may report to `holdfast metadata`: anything else is refused, and named.

const REPORT = { applied: null, networks: ["blue"], written: [], problems: [], waitMs: 0 };
const PROBLEM = { network: "blue", kind: "failed", problem: "no row" };

const directory = newDirectory();
const socketPath = join(directory, "b.sock");
const warned: string[] = [];
const by = { apiVersion: "v1", kind: "ClusterUserDefinedNetwork", name: "blue", uid: "u" };
const log = pino({ level: "silent" });
const service = new BalancerService({
  source: { watch: () => {}, backendsOnNetwork: async () => ({ by, endpoints: [], ports: [] }) },
  events: { warn: (_object, _reason, message) => void warned.push(message), inform: () => {} },
  node: "node-a",
  clock: systemClock,
  log,
});
const ports = [{ port: 5000, endpoints: [] }];
const unopened: string[] = [];
const source = {
  watch: () => {},
  portsOf: async () => ({ service: "shop/md", ports }),
  tellUnopened: async (network: string, problem: string) => void unopened.push(`${network}: ${problem}`),
};
const relay = new ServiceRelay({ source, clock: systemClock, log });
const server = new BalancerServer({ service, relay }, systemClock, log);

beforeAll(async () => {
  relay.start();
  await server.start(socketPath);
});
afterAll(async () => {
  await server.stop();
  await relay.stop();
  rmSync(directory, { recursive: true });
});

async function report(body: string, path = BALANCERS_PATH): Promise<{ status?: number; text: string }> {
  const call = request({ agent: false, socketPath, method: "POST", path }).end(body);
  const [answer] = await once(call, "response");
  let text = "";
  for await (const chunk of answer.setEncoding("utf8")) text += chunk;
  return { status: answer.statusCode, text };
}

test("a report is answered with what its networks want, and its problem goes into an event of at most 1,000 characters", async () => {
  const first = await report(JSON.stringify({ ...REPORT, waitMs: 60_000 }));
  expect(first.status, first.text).toBe(200);
  expect(JSON.parse(first.text)).toMatchObject({
    node: "node-a",
    balancers: [{ network: "blue", backends: [] }],
  });
  const problems = [{ ...PROBLEM, kind: "no-router", problem: "n".repeat(5_000) }];
  expect(await report(JSON.stringify({ ...REPORT, problems }))).toMatchObject({ status: 200 });
  expect(warned).toEqual([`node node-a: ${"n".repeat(1_000)}`]);
});

test("a report of listeners is answered with the ports of its networks, and one with too long a wait refused", async () => {
  const asked = { applied: null, networks: ["blue"], problem: null, waitMs: 60_000 };
  const first = await report(JSON.stringify(asked), SERVICES_PATH);
  expect(first.status, first.text).toBe(200);
  expect(JSON.parse(first.text).services).toEqual([{ network: "blue", ports: [5000] }]);
  expect(unopened).toEqual([]);
  const problem = "n".repeat(5_000);
  expect(await report(JSON.stringify({ ...asked, problem }), SERVICES_PATH)).toMatchObject({ status: 200 });
  expect(unopened).toEqual([`blue: ${problem.slice(0, 1_000)}`]);
  // As metadata-net of the release before, on a machine where each is restarted by itself.
  const older = { ...asked, problem: undefined };
  expect(await report(JSON.stringify(older), SERVICES_PATH)).toMatchObject({ status: 200 });
  for (const wrong of [{ waitMs: 60_001 }, { problem: 7 }])
    expect(await report(JSON.stringify({ ...asked, ...wrong }), SERVICES_PATH)).toMatchObject({
      status: 400,
    });
});

test.each<[why: string, body: unknown, named: string]>([
  ["no object", [], "expected an object"],
  ["a version that is a number", { ...REPORT, applied: 7 }, "applied"],
  ["no version", { ...REPORT, applied: undefined }, "applied"],
  ["no list of networks", { ...REPORT, networks: { blue: true } }, "networks"],
  ["a network without a name", { ...REPORT, networks: [""] }, "networks"],
  ["a network with a long name", { ...REPORT, networks: ["n".repeat(1_001)] }, "networks"],
  ["what was written is a number", { ...REPORT, written: [7] }, "written"],
  ["a problem that is a string", { ...REPORT, problems: ["no row"] }, "expected an object"],
  ["a problem of no network", { ...REPORT, problems: [{ ...PROBLEM, network: null }] }, "problems.network"],
  ["a problem of an unknown kind", { ...REPORT, problems: [{ ...PROBLEM, kind: "odd" }] }, "kind"],
  ["a problem without a text", { ...REPORT, problems: [{ ...PROBLEM, problem: 1 }] }, "problem"],
  ["a wait that is too long", { ...REPORT, waitMs: 60_001 }, "waitMs"],
  ["a wait of part of a millisecond", { ...REPORT, waitMs: 0.5 }, "waitMs"],
])("a report is refused: %s", async (_why, body, named) => {
  const { status, text } = await report(JSON.stringify(body));
  expect({ status, error: JSON.parse(text).error }).toEqual({
    status: 400,
    error: expect.stringContaining(named),
  });
});

test("what is no JSON is refused", async () => {
  expect(await report("{")).toMatchObject({ status: 400 });
});

/**
 * Wall clocks jump; cool-downs, graces and deadlines do not notice, and nothing is freed or given twice because of it.
 */
import { rmSync, statSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { pause, until } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { attachedTo, boundOn, expectSound, networksOf } from "./truth.ts";
import { podArgs, postCni, wireRequest } from "./wire.ts";

const DAY_MS = 86_400_000;
const REST_S = 3;
const GRACE_S = 3;
const DEADLINE_MS = 1_500;

const KEPT = network("kept", { subnets: "10.10.0.0/24,fd10::/64" });
const RESTING = network("cooling", { subnets: "10.11.0.0/24", cooldownSeconds: REST_S });
const VMS = network("vms", { subnets: "10.12.0.0/24" }, { allowPersistentIPs: true });

/** Preloaded into the daemon: its wall clock is the real one plus what the file says, read at every look. */
const CLOCK_SCRIPT = `
  const { readFileSync } = require("node:fs");
  const RealDate = Date;
  const now = () => RealDate.now() + Number(readFileSync(process.env.HOLDFAST_TEST_CLOCK, "utf8"));
  globalThis.Date = class extends RealDate {
    constructor(...parts) { parts.length === 0 ? super(now()) : super(...parts); }
    static now() { return now(); }
  };
`;

class JumpingClock {
  readonly env: Readonly<Record<string, string>>;
  readonly #file: string;

  constructor(node: StandaloneNode) {
    this.#file = node.path("clock");
    const script = node.path("clock.cjs");
    writeFileSync(script, CLOCK_SCRIPT);
    this.jump(0);
    this.env = { NODE_OPTIONS: `--require=${script}`, HOLDFAST_TEST_CLOCK: this.#file };
  }

  jump(byMs: number): void {
    writeFileSync(this.#file, String(byMs));
  }
}

/** Seconds on the clock that does not jump. */
const secondsNow = () => performance.now() / 1_000;

async function restsFor(daemon: TestDaemon): Promise<number> {
  await postCni(daemon, "ADD", "cooling", { config: RESTING });
  const started = secondsNow();
  await postCni(daemon, "DEL", "cooling", { config: RESTING });
  await until(
    async () => (await networksOf(daemon)).find(({ name }) => name === "cooling")?.ranges[0]?.cooling === "0",
    "the rest's end",
  );
  return secondsNow() - started;
}

/** A file serves as well as a network namespace: what counts is which inode is at the path. */
async function survivesNamespaceFor(daemon: TestDaemon, netns: string): Promise<number> {
  writeFileSync(netns, "");
  const { dev, ino } = statSync(netns);
  const wire = { ...wireRequest("ADD", "orphan", { config: KEPT, netns }), netnsId: `${dev}:${ino}` };
  expect((await daemon.post("/cni", wire)).status).toBe(200);
  const started = secondsNow();
  rmSync(netns);
  await until(async () => !(await attachedTo(daemon, "kept")).includes("orphan"), "the witness");
  return secondsNow() - started;
}

async function waitsForClaim(daemon: TestDaemon): Promise<number> {
  const started = secondsNow();
  const answer = await postCni(daemon, "ADD", "vm", { config: VMS, args: podArgs("vm", "absent") });
  expect(answer.json().code).toBe(11);
  return secondsNow() - started;
}

test.each([
  ["a day forward", DAY_MS],
  ["a day back", -DAY_MS],
  ["a year forward", 365 * DAY_MS],
  ["a year back", -365 * DAY_MS],
])("%s", async (_what, jumpMs) => {
  const node = new StandaloneNode();
  const clock = new JumpingClock(node);
  const options = {
    env: clock.env,
    args: [
      ...["--witness-interval-seconds", "1", "--witness-grace-seconds", String(GRACE_S)],
      ...["--add-deadline-ms", String(DEADLINE_MS)],
    ],
  };
  const daemon = await node.daemon(options);
  const bodies = new Map<string, string>();
  for (let index = 0; index < 20; index++) {
    bodies.set(`c-${index}`, (await postCni(daemon, "ADD", `c-${index}`, { config: KEPT })).body);
  }
  writeFileSync(node.path("state", "spool", ".tmp-0-1.json"), "a plugin binary is writing this");

  const measured = Promise.all([
    restsFor(daemon),
    survivesNamespaceFor(daemon, node.path("netns")),
    waitsForClaim(daemon),
  ]);
  await pause(500);
  clock.jump(jumpMs);
  const [rest, grace, deadline] = await measured;
  // Measured from before it could begin. A jump that counted would end it at once, or keep it for longer than anybody
  // waits here.
  for (const [seconds, wanted] of [
    [rest, REST_S],
    [grace, GRACE_S],
    [deadline, DEADLINE_MS / 1_000],
  ] as const) {
    expect(seconds).toBeGreaterThanOrEqual(wanted);
  }
  expect(statSync(node.path("state", "spool", ".tmp-0-1.json")).isFile()).toBe(true);

  const expectSame = async (now: TestDaemon) => {
    expect(await attachedTo(now, "kept")).toEqual([...bodies.keys()].sort());
    for (const [id, body] of bodies) expect((await postCni(now, "ADD", id, { config: KEPT })).body).toBe(body);
    expect((await boundOn(now, "kept")).size).toBe(2 * bodies.size);
    await expectSound(now);
    await expectReadableHistory(now);
  };
  await expectSame(daemon);
  await daemon.end("SIGKILL");
  clock.jump(-jumpMs);
  await expectSame(await node.daemon(options));
});

/** Times are for people: they may run backwards, but each can be read, and what is over has an end. */
async function expectReadableHistory(daemon: TestDaemon): Promise<void> {
  const answer = await daemon.get("/v1/history?limit=1000");
  expect(answer.status, answer.body).toBe(200);
  const { items } = answer.json() as {
    items: { from: string; until: string | null; endedBy: string | null }[];
  };
  expect(items.length).toBeGreaterThan(40);
  for (const { from, until: end, endedBy } of items) {
    for (const time of [from, end]) if (time !== null) expect(new Date(time).getTime()).not.toBeNaN();
    expect(end === null).toBe(endedBy === null);
  }
}

/**
 * A daemon that is replaced under load: every ADD is carried through the gap, and none is refused for Holdfast's sake.
 */
import { expect, test } from "vitest";
import { AddLoad, PATIENT, PATIENT_DAEMON } from "../harness/add-load.ts";
import { network, runShim } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { addressesIn, attachedTo, expectSound } from "./truth.ts";
import { claimManifest, podArgs } from "./wire.ts";

const BLUE = network("blue", { subnets: "10.10.0.0/18" });
const VMS = network("vms", { subnets: "10.12.0.0/24" }, { allowPersistentIPs: true });
const RESTARTS = 5;
const AT_ONCE = 6;

test.each(["SIGTERM", "SIGKILL"] as const)("restarts by %s under load fail no ADD", async (signal) => {
  const node = new StandaloneNode();
  let daemon = await node.daemon({ args: PATIENT_DAEMON });
  const { socket, spool } = daemon;
  const ids: string[] = [];
  const load = new AddLoad(AT_ONCE, (number) => {
    ids.push(`c-${number}`);
    return runShim("ADD", `c-${number}`, { socket, spool, config: BLUE, env: PATIENT });
  });
  for (let restart = 0; restart < RESTARTS; restart++) {
    await load.more(2 * AT_ONCE);
    await daemon.end(signal);
    daemon = await node.daemon({ args: PATIENT_DAEMON });
  }
  await load.more(AT_ONCE);

  expect(await load.refused()).toEqual([]);
  expect(await attachedTo(daemon, "blue")).toEqual([...ids].sort());
  const given = load.answers.flatMap(({ stdout }) => addressesIn(stdout));
  expect(new Set(given).size).toBe(ids.length);
  await expectSound(daemon);
});

test("a DEL between two daemons overtakes the ADD that is carried from one to the next", async () => {
  const node = new StandaloneNode();
  const first = await node.daemon({ args: PATIENT_DAEMON });
  const { socket, spool } = first;
  const asked = { socket, spool, config: VMS, args: podArgs("vm", "vm") };
  const carried = runShim("ADD", "vm", { ...asked, env: PATIENT });
  await until(
    async () => (await first.get("/metrics")).body.includes("holdfast_waiting_requests 1"),
    "the ADD to wait for its claim",
  );
  await first.end("SIGKILL");
  const del = await runShim("DEL", "vm", asked);
  expect(del).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("goes to the spool") });

  const next = await node.daemon();
  const { code, stdout } = await carried;
  expect({ code, ...JSON.parse(stdout) }).toMatchObject({
    code: 11,
    msg: expect.stringContaining("overtaken by a later DEL"),
  });
  await next.post("/v1/apply", { objects: [claimManifest("vm", "vms")] });
  expect(await attachedTo(next, "vms")).toEqual([]);
  expect((await runShim("ADD", "vm", asked)).code).toBe(0);
  await expectSound(next);
});

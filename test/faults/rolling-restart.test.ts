/** A daemon that is replaced under load: every ADD is carried through the gap, and none is refused for Holdfast's sake. */
import { expect, test } from "vitest";
import { AddLoad, PATIENT } from "../harness/add-load.ts";
import { network, runShim } from "../harness/daemon.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { addressesIn, attachedTo, expectSound } from "./truth.ts";

const BLUE = network("blue", { subnets: "10.10.0.0/18" });
const RESTARTS = 5;
const AT_ONCE = 6;

test.each(["SIGTERM", "SIGKILL"] as const)("restarts by %s under load fail no ADD", async (signal) => {
  const node = new StandaloneNode();
  let daemon = await node.daemon();
  const { socket, spool } = daemon;
  const ids: string[] = [];
  const load = new AddLoad(AT_ONCE, (number) => {
    ids.push(`c-${number}`);
    return runShim("ADD", `c-${number}`, { socket, spool, config: BLUE, env: PATIENT });
  });
  for (let restart = 0; restart < RESTARTS; restart++) {
    await load.more(2 * AT_ONCE);
    await daemon.end(signal);
    daemon = await node.daemon();
  }
  await load.more(AT_ONCE);

  expect(await load.refused()).toEqual([]);
  expect(await attachedTo(daemon, "blue")).toEqual([...ids].sort());
  const given = load.answers.flatMap(({ stdout }) => addressesIn(stdout));
  expect(new Set(given).size).toBe(ids.length);
  await expectSound(daemon);
});

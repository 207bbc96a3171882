/**
 * Requests that wait together commit together; one of them that is refused takes nothing and costs the others nothing.
 */
import { expect, test } from "vitest";
import { network } from "../harness/daemon.ts";
import { pause } from "../harness/wait.ts";
import { StandaloneNode } from "./standalone-node.ts";
import { addressesIn, boundOn, expectSound, networksOf } from "./truth.ts";
import { claimManifest, podArgs, postCni } from "./wire.ts";

const PLAIN = network("plain", { subnets: "10.10.0.0/24" });
/** Room for 200 in IPv4 and for two in IPv6: from the third on, an IPv4 address is taken and must be given back. */
const NARROW = network("narrow", {
  subnets: "10.11.0.0/24,fd11::/126",
  gateway: "fd11::1",
  cooldownSeconds: 0,
});
const VMS = network("vms", { subnets: "10.12.0.0/24" }, { allowPersistentIPs: true });

test("a request that is refused within a batch does not affect the others", async () => {
  const node = new StandaloneNode();
  const daemon = await node.daemon();
  await daemon.post("/v1/apply", { objects: [claimManifest("shared", "vms")] });

  // All requests lie in the daemon's sockets before it runs again: it reads them in one turn.
  daemon.process.kill("SIGSTOP");
  const asked = Array.from({ length: 40 }, (_, index) => [
    postCni(daemon, "ADD", `plain-${index}`, { config: PLAIN }),
    postCni(daemon, "ADD", `narrow-${index}`, { config: NARROW }),
    postCni(daemon, "ADD", `vm-${index}`, { config: VMS, args: podArgs(`vm-${index}`, "shared") }),
    postCni(daemon, "ADD", `taken-${index}`, { config: PLAIN, args: "IP=10.10.0.200" }),
  ]).flat();
  await pause(300);
  daemon.process.kill("SIGCONT");
  const answers = await Promise.all(asked);

  const ok = (kind: number) => answers.filter(({ status }, index) => index % 4 === kind && status === 200);
  const codes = (kind: number) =>
    new Set(
      answers.flatMap((answer, index) => (index % 4 === kind && answer.status !== 200 ? [answer.json().code] : [])),
    );
  expect([0, 1, 2, 3].map((kind) => ok(kind).length)).toEqual([40, 2, 1, 1]);
  expect([0, 1, 2, 3].map((kind) => [...codes(kind)])).toEqual([[], [11], [124], [120]]);
  const given = ok(0).flatMap(({ body }) => addressesIn(body));
  expect(new Set(given).size).toBe(40);

  await expectSound(daemon);
  expect((await boundOn(daemon, "plain")).size).toBe(41);
  expect((await boundOn(daemon, "narrow")).size).toBe(4);
  expect((await boundOn(daemon, "vms")).size).toBe(1);
  const inMemory = await networksOf(daemon);
  await daemon.end("SIGKILL");
  const next = await node.daemon();
  expect(await networksOf(next)).toEqual(inMemory);
  await expectSound(next);
});

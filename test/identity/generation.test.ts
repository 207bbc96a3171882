import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { processTest, restart, test } from "../cni/fixtures.ts";
import { network, type ServedDaemon } from "../harness/daemon.ts";

/** What metadata servers read to know whether an answer of the identity socket is still true. */

const pathOf = (daemon: ServedDaemon) => join(daemon.directory, "identity.sock.generation");
const read = (daemon: ServedDaemon) => readFileSync(pathOf(daemon), "hex");
const config = network("blue");

test("the generation changes with each answered ADD and DEL, and not otherwise", async ({ daemon }) => {
  const seen = [read(daemon)];
  for (const verb of ["ADD", "DEL", "ADD", "DEL"]) {
    expect((await daemon.cni(verb, "c1", { config })).code).toBe(0);
    seen.push(read(daemon));
  }
  expect(new Set(seen).size).toBe(seen.length);
  await daemon.get("/v1/networks");
  await daemon.get("/v1/identity?container=c1");
  expect(read(daemon)).toBe(seen.at(-1));
});

test("each of many concurrent requests changes the generation before it is answered", async ({ daemon }) => {
  const changed = await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      const before = read(daemon);
      await daemon.cni("ADD", `c${n}`, { config });
      return read(daemon) !== before;
    }),
  );
  expect(changed).not.toContain(false);
});

processTest("no daemon after a killed one has its generation", async ({ daemon }) => {
  await daemon.cni("ADD", "c1", { config });
  const before = read(daemon);
  await restart(daemon, "SIGKILL");
  expect(read(daemon)).not.toBe(before);
});

processTest(
  "the generation file is readable by those who may ask, and is deleted when the daemon ends",
  async ({ daemon }) => {
    expect(statSync(pathOf(daemon)).mode & 0o777).toBe(0o600);
    await restart(daemon, "SIGTERM", ["--identity-socket", "off"]);
    expect(existsSync(pathOf(daemon))).toBe(false);
  },
);

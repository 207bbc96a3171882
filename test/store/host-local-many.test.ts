import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { LeaseHolder } from "../../ipam/definition/host-local-lease.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import type { Lease } from "../../store/host-local/lease-files.ts";
import { recordLeases } from "../../store/host-local/record-leases.ts";
import type { NodeContext } from "../../store/node-context.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { ManualClock } from "../harness/manual-clock.ts";

/** A network with thousands of host-local's files is switched. */

const FILES = 2_000;
const conf = { name: "blue", ipam: { type: "holdfast-ipam", subnet: "10.88.0.0/16" } };

async function switched() {
  const root = mkdtempSync(join(tmpdir(), "holdfast-many-leases-"));
  const directory = join(root, "networks", "blue");
  mkdirSync(directory, { recursive: true });
  mkdirSync(join(root, "state"));
  for (let at = 0; at < FILES; at += 1)
    writeFileSync(join(directory, `10.88.${1 + (at >> 8)}.${at & 255}`), `container-${at}\r\neth0`);
  const clock = new ManualClock();
  const hostLocalDirs = { standard: join(root, "networks"), allowed: null };
  const context: NodeContext = {
    clock,
    node: "node-a",
    bootId: "b",
    namespaceGone: () => false,
    hostLocalDirs,
  };
  const store = new SqliteStore(join(root, "state"), context, { info: () => {}, error: () => {} });
  await store.open();
  onTestFinished(() => {
    store.close();
    rmSync(root, { recursive: true, force: true });
  });
  let us = 1;
  const add = (containerId: string, waitMs: number) =>
    store.attach({
      network: "blue",
      definition: parsePluginConfig(conf),
      definitionSource: JSON.stringify(conf),
      containerId,
      interface: "eth0",
      stamp: { bootId: "b", us: us++ },
      netns: { path: `/run/netns/${containerId}`, id: "4:1", witnessed: false },
      pod: null,
      claim: null,
      requested: [],
      onePerFamily: false,
      deadlineMs: clock.monotonicMs() + waitMs,
    });
  return { add };
}

test("an ADD that cannot wait for all of host-local's files is told why, and the next one is served", async () => {
  const { add } = await switched();
  const late = await add("c1", 0);
  expect(late).toMatchObject({
    kind: "refused",
    refusal: {
      code: "NOT_READY",
      message: expect.stringMatching(/host-local has given on network blue .*goes on/),
    },
  });
  const served = await add("c1", 1_000_000);
  expect(served).toMatchObject({ kind: "attached" });
});

test("host-local's files are recorded by the hundred, those of one container together", async () => {
  const leases: Lease[] = Array.from({ length: FILES }, (_, at) => ({
    address: parseAddress(`10.88.${at >> 8}.${at & 255}`),
    path: `/${at}`,
    fileId: `${at}:1`,
    holder: { containerId: `container-${at >> 1}`, interface: "eth0" },
  }));
  const slices: number[] = [];
  const leaseStore = {
    take: async (_: unknown, groups: readonly (readonly [LeaseHolder, readonly Lease[]])[]) => {
      slices.push(groups.length);
      expect(groups.every(([, ofHolder]) => ofHolder.length === 2)).toBe(true);
      return groups.map(([, ofHolder]) => ofHolder.map(() => ({ kind: "taken" }) as const));
    },
  };
  const parts = { leaseStore, clock: new ManualClock() };
  const judged = await recordLeases(parts, parsePluginConfig(conf), leases, () => {});
  expect(judged).toHaveLength(FILES);
  expect(slices).toEqual(Array(10).fill(100));
});

import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { formatAddress } from "../../ipam/space/address.ts";
import { systemClock } from "../../platform/time.ts";
import { type Lease, readLeases } from "../../store/host-local/lease-files.ts";

/** A directory of a thousand leases that nobody has touched for a minute. */
async function directoryOfLeases(): Promise<{ directory: string; former: Map<string, Lease> }> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-lease-files-"));
  const minuteAgo = new Date(Date.now() - 60_000);
  for (let at = 0; at < 1_000; at += 1) {
    const path = join(directory, `10.0.${at >> 8}.${at & 255}`);
    writeFileSync(path, `container-${at}\r\neth0`);
    utimesSync(path, minuteAgo, minuteAgo);
  }
  return { directory, former: byAddress(await readLeases(systemClock, directory)) };
}

function byAddress(leases: readonly Lease[]): Map<string, Lease> {
  return new Map(leases.map((lease) => [formatAddress(lease.address), lease]));
}

test("a changed directory has only its new files opened", async () => {
  const { directory, former } = await directoryOfLeases();
  try {
    rmSync(join(directory, "10.0.0.7"));
    writeFileSync(join(directory, "10.0.0.8"), "another\r\neth1");
    writeFileSync(join(directory, "10.0.200.1"), "new\r\neth0");
    const again = byAddress(await readLeases(systemClock, directory, [...former.values()]));
    const opened = [...again].filter(([address, lease]) => lease !== former.get(address));
    expect(opened.map(([address, { holder }]) => `${address} ${holder?.containerId}`).sort()).toEqual([
      "10.0.0.8 another",
      "10.0.200.1 new",
    ]);
    expect(again.size).toBe(1_000);
    expect(again.has("10.0.0.7")).toBe(false);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("without an earlier reading every file is opened", async () => {
  const { directory, former } = await directoryOfLeases();
  try {
    const again = byAddress(await readLeases(systemClock, directory));
    expect(again).toEqual(former);
    expect([...again].some(([address, lease]) => lease === former.get(address))).toBe(false);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { formatAddress } from "../../ipam/space/address.ts";
import { systemClock } from "../../platform/time.ts";
import { type Lease, readLeases } from "../../store/host-local/lease-files.ts";

/** A folder of a thousand leases that nobody has touched for a minute. */
async function folderOfLeases(): Promise<{ folder: string; former: Map<string, Lease> }> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-lease-files-"));
  const minuteAgo = new Date(Date.now() - 60_000);
  for (let at = 0; at < 1_000; at += 1) {
    const path = join(folder, `10.0.${at >> 8}.${at & 255}`);
    writeFileSync(path, `container-${at}\r\neth0`);
    utimesSync(path, minuteAgo, minuteAgo);
  }
  return { folder, former: byAddress(await readLeases(systemClock, folder)) };
}

function byAddress(leases: readonly Lease[]): Map<string, Lease> {
  return new Map(leases.map((lease) => [formatAddress(lease.address), lease]));
}

test("a changed folder has only its new files opened", async () => {
  const { folder, former } = await folderOfLeases();
  try {
    rmSync(join(folder, "10.0.0.7"));
    writeFileSync(join(folder, "10.0.0.8"), "another\r\neth1");
    writeFileSync(join(folder, "10.0.200.1"), "new\r\neth0");
    const again = byAddress(await readLeases(systemClock, folder, [...former.values()]));
    const opened = [...again].filter(([address, lease]) => lease !== former.get(address));
    expect(opened.map(([address, { holder }]) => `${address} ${holder?.containerId}`).sort()).toEqual([
      "10.0.0.8 another",
      "10.0.200.1 new",
    ]);
    expect(again.size).toBe(1_000);
    expect(again.has("10.0.0.7")).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("without an earlier reading every file is opened", async () => {
  const { folder, former } = await folderOfLeases();
  try {
    const again = byAddress(await readLeases(systemClock, folder));
    expect(again).toEqual(former);
    expect([...again].some(([address, lease]) => lease === former.get(address))).toBe(false);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { TestDaemon } from "../harness/daemon.ts";

// More allocations than one answer of the API carries (5000).
const ALLOCATIONS = 10_100;
let daemon: TestDaemon;

beforeAll(async () => {
  daemon = await TestDaemon.start();
  for (let first = 0; first < ALLOCATIONS; first += 2_020) {
    const objects = Array.from({ length: 2_020 }, (_, n) => claim(first + n));
    await daemon.post("/v1/apply", { objects });
  }
});
afterAll(() => daemon.stop());

function claim(n: number): object {
  return {
    apiVersion: "k8s.cni.cncf.io/v1alpha1",
    kind: "IPAMClaim",
    metadata: { name: `c${n}`, namespace: n % 2 === 0 ? "even" : "odd" },
    spec: { network: "big" },
    status: { ips: [`10.${n >> 8}.${n & 255}.1/8`] },
  };
}

test("list shows all pages of the API, each allocation once and in order", async () => {
  const { stdout } = await daemon.cli("list", "-o", "json");
  const addresses = JSON.parse(stdout).items.map(({ address }: { address: string }) => address);
  expect(addresses).toEqual(Array.from({ length: ALLOCATIONS }, (_, n) => `10.${n >> 8}.${n & 255}.1/8`));
});

test("list with a filter and show read all pages too", async () => {
  const odd = await daemon.cli("list", "--claim", "odd/c10099");
  expect(odd.stdout).toContain("10.39.115.1/8   claim odd/c10099");
  const { stdout } = await daemon.cli("show", "big");
  expect(stdout).toContain(`Holders:      ${ALLOCATIONS}`);
  expect(stdout.trimEnd().split("\n").at(-1)).toContain("10.39.115.1/8");
});

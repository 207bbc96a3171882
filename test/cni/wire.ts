/**
 * Requests of `POST /cni` written by hand: what the plugin binary would have sent at another instant, or in another
 * boot.
 */
import { readFileSync } from "node:fs";
import { expect } from "vitest";
import type { CniWireRequest } from "../../cni-shim/wire.ts";
import { type ApiAnswer, network, type ServedDaemon } from "../harness/daemon.ts";

const THIS_BOOT = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
export const FORMER_BOOT = "00000000-0000-4000-8000-000000000000";

/** An instant to count from, microseconds of the boot clock. Near now, for old tombstones are forgotten. */
export const T = Math.round(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000_000);

type Fields = Partial<Omit<CniWireRequest, "command" | "config">> & { readonly config?: object };

/** One request. Unless said otherwise: container c1, eth0, network blue, at instant T of this boot. */
export function wireOf(command: CniWireRequest["command"], { config, ...fields }: Fields = {}): CniWireRequest {
  return {
    command,
    containerId: "c1",
    netns: "/run/netns/none",
    netnsId: "",
    ifname: "eth0",
    args: "",
    bootId: THIS_BOOT,
    bootUs: T,
    config: JSON.stringify(config ?? network("blue")),
    ...fields,
  };
}

/** Posts one request. */
export function send(
  daemon: ServedDaemon,
  command: CniWireRequest["command"],
  fields: Fields = {},
): Promise<ApiAnswer> {
  return daemon.post("/cni", wireOf(command, fields));
}

/** The addresses of an ADD that must have succeeded. */
export function addressesIn(answer: ApiAnswer): string[] {
  expect(answer.status, answer.body).toBe(200);
  return answer.json().ips.map((ip: { address: string }) => ip.address);
}

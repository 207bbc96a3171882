import { once } from "node:events";
import { expect } from "vitest";
import type { KubeObject } from "../kube-api.ts";
import type { Vm } from "../kubevirt.ts";
import type { AttachmentOptions, NodeDaemon } from "../node.ts";
import { interfaceOf } from "./kubevirt-objects.ts";
import { ipsOf, type Network } from "./network.ts";

/** Far above what a daemon needs to tell the API server what it owes, ms. */
const CHECK_MS_MAX = 30_000;
const TRY_AGAIN = 11;

/** A pod or VM with one interface, and what its sandbox asks for. */
export interface Guest {
  readonly pod: KubeObject;
  readonly network: Network;
  readonly options: AttachmentOptions;
  readonly vm: Vm | null;
}

export type VmGuest = Guest & { readonly vm: Vm };

/** How a launcher pod attaches to a network that is called the same in its VM. */
export function optionsOf(network: Network): AttachmentOptions {
  return { config: network.config, ifname: interfaceOf(network.name) };
}

/** An ADD that must succeed: its addresses. */
export async function added(node: NodeDaemon, guest: Guest, more: object = {}): Promise<string[]> {
  const answer = await node.add(guest.pod, { ...guest.options, ...more });
  expect(answer.code, answer.stdout + node.log).toBe(0);
  return ipsOf(answer);
}

/** An ADD repeated as a runtime does: "try again" is, everything else counts. */
export async function addedInTheEnd(node: NodeDaemon, guest: Guest, more: object = {}): Promise<string[]> {
  let answer = await node.add(guest.pod, { ...guest.options, ...more });
  await node.time.until(async () => {
    if (answer.code === 0) return true;
    expect(answer.json().code, answer.stdout).toBe(TRY_AGAIN);
    answer = await node.add(guest.pod, { ...guest.options, ...more });
    return answer.code === 0;
  }, `an ADD on ${node.name}`);
  return ipsOf(answer);
}

/** A DEL, which always succeeds. */
export async function deleted(node: NodeDaemon, guest: Guest, more: object = {}): Promise<void> {
  const answer = await node.del(guest.pod, { ...guest.options, ...more });
  expect(answer.code, answer.stdout + answer.stderr).toBe(0);
}

/** A node's own check finds nothing wrong, at the latest when everything pending is sent. */
export async function checked(node: NodeDaemon): Promise<void> {
  let said = "";
  const clean = async () => {
    const { status, body, json } = await node.daemon.get("/v1/check");
    said = body;
    return status === 200 && json().findings.length === 0;
  };
  await node.time.until(clean, "check", CHECK_MS_MAX).catch(() => {
    throw new Error(`check on ${node.name}: ${said}; log: ${node.log}`);
  });
}

/** Waits for a daemon that a kill point ends. */
export async function died({ process }: NodeDaemon): Promise<void> {
  if (process.exitCode === null && process.signalCode === null) await once(process, "exit");
  expect(process.signalCode).toBe("SIGKILL");
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import type { NetworkDefinition } from "../../ipam/definition/network-definition.ts";
import { parsePluginConfig } from "../../ipam/definition/plugin-config.ts";
import { parseRequestedAddress } from "../../ipam/definition/requested-address.ts";
import type { NamespaceIdentity } from "../../platform/namespaces.ts";
import type { Allocations, AttachOutcome, AttachWant, Reservations } from "../../store/allocations.ts";
import { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { ManualClock } from "../harness/manual-clock.ts";
import { MemoryAllocations } from "./memory-allocations.ts";

export const BOOT = "boot-now";

/** One implementation of Allocations with the handles a contract test needs. */
export interface Subject {
  readonly name: string;
  readonly allocations: Allocations;
  readonly reservations: Reservations;
  readonly clock: ManualClock;
  /** Network namespace paths that count as gone. */
  readonly gone: Set<string>;
  createClaim(namespace: string, name: string, network: string): Promise<void>;
  deleteClaim(namespace: string, name: string): Promise<void>;
  /** Claims' addresses are retained for so long from now on, seconds, by whoever plays the controller. */
  retaining?(seconds: number): void;
  /** The same state in a new object, as after a restart; the memory store cannot. */
  reopen(): Promise<void>;
  close(): void | Promise<void>;
}

export async function memorySubject(): Promise<Subject> {
  const clock = new ManualClock();
  const gone = new Set<string>();
  const namespaceGone = (netns: NamespaceIdentity) => gone.has(netns.path);
  const allocations = new MemoryAllocations({ clock, node: "node-a", bootId: BOOT, namespaceGone });
  let claims = 0;
  return {
    name: "memory",
    allocations,
    reservations: allocations.reservations,
    clock,
    gone,
    createClaim: async (namespace, name, network) => {
      claims += 1;
      allocations.createClaim(namespace, name, `uid-${claims}`, network);
    },
    deleteClaim: async (namespace, name) => allocations.deleteClaim(namespace, name),
    reopen: async () => {},
    close: () => {},
  };
}

export interface SqliteSubject extends Subject {
  readonly directory: string;
  store: SqliteStore;
}

export async function sqliteSubject(): Promise<SqliteSubject> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-store-"));
  const clock = new ManualClock();
  const gone = new Set<string>();
  const open = async () => {
    const context = {
      clock,
      node: "node-a",
      bootId: BOOT,
      namespaceGone: (netns: NamespaceIdentity) => gone.has(netns.path),
    };
    const store = new SqliteStore(directory, context, { info: () => {}, error: () => {} });
    await store.open();
    return store;
  };
  const subject = {
    name: "sqlite",
    directory,
    clock,
    gone,
    store: await open(),
    get allocations() {
      return subject.store;
    },
    get reservations() {
      return subject.store.reservations;
    },
    createClaim: async (namespace: string, name: string, network: string) => {
      await subject.store.applyClaim({
        namespace,
        name,
        network,
        manifest: { metadata: {}, spec: { network, interface: "" } },
        vm: { name: "", uid: "" },
        ips: [],
      });
    },
    deleteClaim: async (namespace: string, name: string) => {
      await subject.store.deleteClaim(namespace, name);
    },
    reopen: async () => {
      subject.store.close();
      subject.store = await open();
    },
    close: () => {
      subject.store.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return subject;
}

/** `create` for the tests of one describe: what each of them has made is closed after it. */
export function closedAfterEach<S extends Subject>(create: () => Promise<S>): () => Promise<S> {
  const opened: S[] = [];
  afterEach(async () => {
    for (const subject of opened.splice(0)) await subject.close();
  });
  return async () => {
    const subject = await create();
    opened.push(subject);
    return subject;
  };
}

export interface WantOptions {
  readonly ipam?: object;
  readonly network?: string;
  readonly interface?: string;
  readonly us?: number;
  readonly bootId?: string;
  readonly pod?: string;
  readonly claim?: string;
  readonly requested?: readonly string[];
}

let lastUs = 0;

/** Requests of a test come one after the other unless it says otherwise. */
export function nextUs(): number {
  lastUs += 1_000;
  return lastUs;
}

export function want(containerId: string, options: WantOptions = {}): AttachWant {
  const conf = configOf(options.network ?? "blue", options.ipam);
  return {
    network: options.network ?? "blue",
    definition: definitionOf(conf),
    definitionSource: JSON.stringify(conf),
    containerId,
    interface: options.interface ?? "eth0",
    stamp: { bootId: options.bootId ?? BOOT, us: options.us ?? nextUs() },
    netns: { path: `/run/netns/${containerId}`, id: "4:1", witnessed: true },
    pod: options.pod === undefined ? null : { namespace: "shop", name: options.pod, uid: `${options.pod}-uid` },
    claim: options.claim === undefined ? null : { namespace: "shop", name: options.claim },
    requested: (options.requested ?? []).map((text) => parseRequestedAddress(text, "runtimeConfig.ips")),
    onePerFamily: false,
  };
}

export function detachWant(
  containerId: string,
  options: { network?: string | null; interface?: string; us?: number; bootId?: string } = {},
) {
  return {
    containerId,
    interface: options.interface ?? "eth0",
    network: options.network === undefined ? "blue" : options.network,
    stamp: { bootId: options.bootId ?? BOOT, us: options.us ?? nextUs() },
    reason: "DEL" as const,
  };
}

const definitions = new Map<string, NetworkDefinition>();

function configOf(network: string, ipam: object = {}): object {
  return {
    cniVersion: "1.0.0",
    name: network,
    allowPersistentIPs: true,
    ipam: { type: "holdfast-ipam", subnets: "10.0.0.0/29", ...ipam },
  };
}

function definitionOf(conf: object): NetworkDefinition {
  const key = JSON.stringify(conf);
  const known = definitions.get(key) ?? parsePluginConfig(conf);
  definitions.set(key, known);
  return known;
}

/** The addresses of an outcome, or the code of its refusal. */
export function said(outcome: AttachOutcome): string {
  return outcome.kind === "attached" ? outcome.attachment.ips.map((ip) => ip.address).join(" ") : outcome.refusal.code;
}

/** What a listener takes at most. Connections beyond are closed: first those long without a request. */
export interface Listener {
  readonly processes: readonly ProcessName[];
  readonly reachedBy: string;
  readonly connectionsMax: number;
  /** Line and headers of a request, bytes. Node keeps so much of each connection until they are complete. */
  readonly headerBytesMax: number;
  /** Until line and headers are complete, ms. */
  readonly headerMs: number;
  /** Until the whole request is there, ms. */
  readonly requestMs: number;
  /** Of a connection without a request, ms. */
  readonly keepAliveMs: number;
  /** Without a byte in either direction, ms: longer than any answer is waited for. */
  readonly silentMs: number;
}

/** Of a guest's request, bytes: its password has at most 1,020, and a tenant's backend has no reason to get files. */
export const REQUEST_BODY_BYTES_MAX = 64 << 10;

type ProcessName = "daemon" | "controller" | "metadata" | "metadata-net" | "ui" | "haproxy";

/** The shortest that anybody needs: one connection, one question, an answer at once. */
const QUESTION = { headerBytesMax: 8 << 10, headerMs: 5_000, requestMs: 10_000, keepAliveMs: 5_000 } as const;

/** Of every process. The bounds of a daemon's listeners fit into 1,024 descriptors: see `connectionsMaxOf`. */
export const LISTENERS = {
  plugin: {
    processes: ["daemon"],
    reachedBy: "root, by a socket of mode 0600: the plugin binary, metadata-net, the command line",
    // Above the ADDs that wait for their claims.
    connectionsMax: 2_048,
    headerBytesMax: 16 << 10,
    headerMs: 10_000,
    // A large bundle of manifests.
    requestMs: 60_000,
    keepAliveMs: 72_000,
    // None: metadata-net waits for news, and a backup takes as long as it takes.
    silentMs: 0,
  },
  readers: {
    processes: ["daemon"],
    reachedBy: "members of the group of readGroup, by readonly.sock",
    connectionsMax: 64,
    ...QUESTION,
    // A reader waits for those before it.
    silentMs: 120_000,
  },
  identity: {
    processes: ["daemon"],
    reachedBy: "members of the group of identityGroup, by identity.sock: the metadata server, with a few connections",
    connectionsMax: 64,
    ...QUESTION,
    // Kept by the metadata server between the questions of guests.
    keepAliveMs: 60_000,
    silentMs: 120_000,
  },
  health: {
    processes: ["daemon", "controller", "metadata", "metadata-net"],
    reachedBy:
      "whoever reaches metricsAddress by TCP: the kubelet's probes, Prometheus, and pods where it is no loopback",
    // A probe is closed unanswered when so many come between its connect and its request: each costs some 20 KiB.
    connectionsMax: 256,
    ...QUESTION,
    silentMs: 10_000,
  },
  guests: {
    processes: ["metadata"],
    reachedBy: "haproxy, by a socket for its group; with --listen whoever reaches that address",
    connectionsMax: 1_024,
    // Above the 16 KiB that haproxy takes, with what it adds.
    headerBytesMax: 32 << 10,
    headerMs: 10_000,
    requestMs: 30_000,
    // Longer than haproxy keeps an idle connection, so that we never close one that is about to be used.
    keepAliveMs: 10 * 60_000,
    silentMs: 20 * 60_000,
  },
  relay: {
    processes: ["metadata"],
    reachedBy:
      "haproxy, by a socket for its group: guests' connections to ports of their network's Service, byte for byte",
    // Two haproxies, of which one ends. Each connection takes another one to the pod.
    connectionsMax: 2_048,
    // What haproxy says of a connection.
    headerBytesMax: 512,
    headerMs: 5_000,
    requestMs: 5_000,
    keepAliveMs: 60_000,
    // Above what haproxy allows.
    silentMs: 60_000,
  },
  balancers: {
    processes: ["metadata"],
    reachedBy: "root and the user of the metadata server, by a socket of mode 0600: metadata-net, with one connection",
    connectionsMax: 64,
    ...QUESTION,
    requestMs: 30_000,
    keepAliveMs: 60_000,
    // Above its wait for changes.
    silentMs: 120_000,
  },
  page: {
    processes: ["ui"],
    reachedBy: "every user of the machine, by a port of 127.0.0.1",
    // As health.
    connectionsMax: 256,
    ...QUESTION,
    // A browser sends cookies of other servers of that name, too.
    headerBytesMax: 16 << 10,
    silentMs: 120_000,
  },
  haproxy: {
    processes: ["haproxy"],
    reachedBy: "guests, by 169.254.169.254 and fd00:ec2::254; 64 connections of one port",
    connectionsMax: 8_192,
    // Its buffer.
    headerBytesMax: 16 << 10,
    headerMs: 5_000,
    requestMs: 5_000,
    keepAliveMs: 30_000,
    silentMs: 30_000,
  },
} as const satisfies Readonly<Record<string, Listener>>;

/** Listeners whose server is ours. */
export type ListenerName = Exclude<keyof typeof LISTENERS, "haproxy">;

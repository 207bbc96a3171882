/**
 * What `holdfast-ipam` sends to the daemon, and what it may get back.
 *
 * The shim sends one `POST /cni` over the unix socket, its body this JSON object. A DEL that could not be
 * delivered is the same body in a file of the spool directory. The shim copies the CNI environment and its
 * standard input as they are, all of them as strings: every judgement about their content is the daemon's.
 *
 * The answer: status 200 with the CNI result as body (empty for DEL, CHECK, GC and STATUS) makes the shim print
 * the body and exit 0; any other status carries a CNI error object, which the shim prints before it exits 1. For
 * a DEL, status 5xx means "not done": the shim spools it and exits 0.
 *
 * A daemon that ends leaves ADD, CHECK and GC to the next one: it cuts the connection, or answers with `Retry-After`.
 * The shim then sends the same body again, until its own deadline. So each of them must be idempotent, by `bootUs` too.
 */
export interface CniWireRequest {
  /** CNI_COMMAND. VERSION is answered by the shim alone and never sent. */
  readonly command: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS";
  /** CNI_CONTAINERID; "" where the verb has none (GC, STATUS). */
  readonly containerId: string;
  /** CNI_NETNS; "" when the runtime gave none (allowed for DEL). */
  readonly netns: string;
  /** `<device>:<inode>` of CNI_NETNS as the shim saw it, decimal; "" when there is nothing at that path. */
  readonly netnsId: string;
  /** CNI_IFNAME; "" where the verb has none. */
  readonly ifname: string;
  /** CNI_ARGS, verbatim. */
  readonly args: string;
  /**
   * The boot that the daemon serves: first line of `<socket>.boot`, else the kernel's boot ID; "" without either.
   * Counts in a file of the spool.
   */
  readonly bootId: string;
  /** CLOCK_BOOTTIME when the shim started, whole microseconds. Orders the requests of one boot. */
  readonly bootUs: number;
  /** Standard input, verbatim. Not necessarily JSON. */
  readonly config: string;
}

/** The error object of the CNI specification, section 5. */
export interface CniError {
  readonly cniVersion: string;
  readonly code: number;
  readonly msg: string;
  readonly details: string;
}

/** The versions of the CNI specification this plugin speaks, oldest first. The shim's VERSION prints the same. */
export const CNI_VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

/** Largest body of `POST /cni`, bytes: larger than any CNI configuration seen; refuses a runaway writer. */
export const CNI_BODY_BYTES_MAX = 4 * 1024 * 1024;

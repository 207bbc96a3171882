import { LISTENERS, REQUEST_BODY_BYTES_MAX } from "../../platform/listeners/listeners.ts";
import { METADATA_IPV6 } from "../drivers/driver.ts";
import { IDENTITY_PREFIXES } from "./client-headers.ts";
import { LISTENER_HEADERS } from "./listener-headers.ts";

export interface HaproxyPlan {
  /** In which it listens. */
  readonly namespace: string;
  readonly ipv6: boolean;
  readonly runDir: string;
  readonly metadataSocket: string;
  /** null: as whoever starts it. */
  readonly runAs: { readonly user: string; readonly group: string } | null;
  /** Where `holdfast metadata` takes connections to other ports than 80. */
  readonly relaySocket: string;
  /** Requests in 10 s at one port; 0: no limit. */
  readonly rateLimit: number;
}

/** Of one port: a thousand idle ones of a VM must not keep another from its metadata. */
const CONNECTIONS_PER_PORT_MAX = 64;
/** Of those at other ports than 80, as many as the relay takes of one haproxy. */
const RELAYED_CONNECTIONS_MAX = LISTENERS.relay.connectionsMax / 2;
/** In the namespace, on loopback: where connections to other ports than 80 are led by the rules there. */
export const RELAY_PORT = 1;
/** The frontend of guests, as haproxy's counters name it. */
export const GUESTS = "guests";
/** In the run directory; with what haproxy adds to it while it binds, a name of a socket has to fit 107 bytes. */
export const WAITING_SOCKET = "wait.sock";
/** In the run directory: who is behind which port. */
const MAP_FILE = "ports.map";
/** In the run directory: which networks have which ports beside port 80, and what the relay calls them. */
const SERVICES_FILE = "services.map";
const { connectionsMax: CONNECTIONS_MAX, headerMs, keepAliveMs, silentMs } = LISTENERS.haproxy;
/** Of those that wait for the server, which each take a second connection: an eighth of all. */
const WAITING_CONNECTIONS_MAX = CONNECTIONS_MAX / 8;
/**
 * New connections of one port for each request that it may make: also a client that begins one for every request, and
 * goes on when it is refused, is served. What is beyond leaves no socket behind: haproxy resets it.
 */
const CONNECTIONS_PER_REQUEST = 2;
/** How long what a guest does not acknowledge is kept: its link is on this node. */
const UNACKNOWLEDGED_S_MAX = 5;
/** How long a guest is kept waiting for a server that is being started; it asks again by itself after a few seconds. */
const SERVER_AWAY_MS_MAX = 3_000;
const WAITING_MS = 200;
/** Chunked bodies have no length: they must fit the buffer (16 KiB with headers). */
const CHUNKED_BODY_BYTES_MAX = 8_192;
/** More ports than that are not on one node. */
const PORTS_MAX = 4_096;

const SENTENCES: readonly (readonly [status: number, sentence: string, header?: string])[] = [
  [400, "The request cannot be understood."],
  [403, "Please ask http://169.254.169.254/: the name in the Host header is not one of this service."],
  [408, "The request took too long to arrive. Please try again."],
  [413, "The request is too large."],
  [429, "Too many requests. Please try again later.", "Retry-After 10"],
  [502, "The metadata server gave no usable answer. Please try again later."],
  [503, "The metadata server is temporarily unavailable. Please try again later.", "Retry-After 1"],
  [504, "The metadata server took too long to answer. Please try again later."],
];

export function mapFile(runDir: string): string {
  return `${runDir}/${MAP_FILE}`;
}

export function servicesFile(runDir: string): string {
  return `${runDir}/${SERVICES_FILE}`;
}

/** The whole configuration. It does not depend on ports: who is behind which one is in the map. */
export function haproxyText(plan: HaproxyPlan): string {
  const { runDir, runAs, namespace } = plan;
  const where = `namespace ${namespace} tcp-ut ${UNACKNOWLEDGED_S_MAX}s`;
  const bound = `${where} proto h1`;
  return `# Made by holdfast metadata-net. Which guest is behind which port is in ${MAP_FILE}.
global
${runAs === null ? "" : `  user ${runAs.user}\n  group ${runAs.group}\n`}  nbthread 2
  maxconn ${CONNECTIONS_MAX}
  hard-stop-after 30s
  stats socket ${runDir}/stats.sock mode 600 level admin expose-fd listeners

defaults
  mode http
  option http-buffer-request
  option http-keep-alive
  # A guest that has kept its connection loses no request to a reload.
  option idle-close-on-response
  timeout http-request ${headerMs}ms
  timeout http-keep-alive ${keepAliveMs}ms
  timeout client ${silentMs}ms
  timeout connect 2s
  timeout queue 5s
  timeout server 75s
${SENTENCES.map(([status]) => `  http-error ${answer(status)}`).join("\n")}

# A server that is being started anew costs a guest a moment, not the request. Connecting to a socket fails at once, and
# haproxy tries again at once, which is too soon: so whoever finds no server waits a little, is told 425 (which the server
# never says), and tries again. What came too often is told the truth.
frontend waiting-room
  bind unix@${runDir}/${WAITING_SOCKET} mode 600${runAs === null ? "" : ` user ${runAs.user}`}
  maxconn ${WAITING_CONNECTIONS_MAX}
  option httpclose
  timeout tarpit ${WAITING_MS}ms
  http-request tarpit deny_status 425

backend metadata
  http-reuse always
  option redispatch 1
  retries ${Math.ceil(SERVER_AWAY_MS_MAX / WAITING_MS)}
  retry-on conn-failure empty-response 425
  http-request disable-l7-retry unless METH_GET or { method HEAD PUT }
  http-response return ${answer(503)} if { status 425 }
  http-response del-header server
  server server unix@${plan.metadataSocket} check inter 2s fastinter 100ms downinter 100ms rise 1 fall 1 observe layer4 error-limit 1 on-error mark-down
  server waiting-room unix@${runDir}/${WAITING_SOCKET} backup

frontend ${GUESTS}
  bind 0.0.0.0:80 ${bound}
${plan.ipv6 ? `  bind [::]:80 v6only ${bound}\n` : ""}${guestRules(plan)}
# Other ports of the Services of networks, byte for byte: the relay is told the network's port and nothing of the guest.
backend relay
  mode tcp
  server relay unix@${plan.relaySocket} send-proxy-v2 proxy-v2-options unique-id maxconn ${RELAYED_CONNECTIONS_MAX}

frontend relayed
  mode tcp
  bind 127.0.0.1:${RELAY_PORT} transparent ${where}
  timeout tunnel ${silentMs}ms
  unique-id-format %[var(sess.service)]
${connectionRules(plan, GUESTS)}  tcp-request connection set-var(sess.service) var(sess.port),map_str(${mapFile(runDir)}),field(1,|),concat(|,sess.asked),map_str(${servicesFile(runDir)})
  tcp-request connection reject unless { var(sess.service) -m found }
  default_backend relay
`;
}

/** Who connects, and how often: at whatever port, the same bounds. `table`: of the frontend that counts. */
function connectionRules({ rateLimit }: HaproxyPlan, table: string): string {
  const often =
    rateLimit === 0
      ? ""
      : `  # Before one is kept: a guest that acknowledges nothing keeps each for a while after haproxy has closed it.
  tcp-request connection reject if { sc0_gpc1_rate(${table}) ge ${CONNECTIONS_PER_REQUEST * rateLimit} }
  tcp-request connection sc-inc-gpc1(0)
`;
  return `  tcp-request connection set-var(sess.port) dst,hex
  tcp-request connection set-var(sess.port) src,bytes(4,4),hex if { dst ${METADATA_IPV6} }
  tcp-request connection set-var(sess.asked) dst_port
  tcp-request connection track-sc0 var(sess.port) table ${table}
  tcp-request connection reject if { sc0_conn_cur(${table}) gt ${CONNECTIONS_PER_PORT_MAX} }
${often}`;
}

/**
 * A port's number in hexadecimal is the destination of IPv4, and the second quarter of the source of IPv6: the drivers
 * put it there. What a guest calls itself is hearsay.
 */
function guestRules(plan: HaproxyPlan): string {
  const { runDir, rateLimit } = plan;
  const limit =
    rateLimit === 0
      ? ""
      : `  # Refused requests do not count: who goes on asking is answered again when the time is over.
  http-request deny deny_status 429 if { sc0_gpc0_rate ge ${rateLimit} }
  http-request sc-inc-gpc0(0)
`;
  return `  stick-table type string len 8 size ${PORTS_MAX} expire 60s store conn_cur,gpc0,gpc0_rate(10s),gpc1,gpc1_rate(10s)
${connectionRules(plan, GUESTS)}${limit}  # At each request: a guest that went keeps nothing by a connection that it has.
  http-request set-var(txn.guest) var(sess.port),map_str(${mapFile(runDir)})
  http-request return ${answer(503)} unless { var(txn.guest) -m found }
  http-request deny deny_status 413 if { req.hdr_val(content-length) gt ${REQUEST_BODY_BYTES_MAX} }
  http-request deny deny_status 413 if { req.hdr(transfer-encoding) -m found } { req.body_len gt ${CHUNKED_BODY_BYTES_MAX} }
  # Not for a page in a guest's browser whose own name server leads it here (DNS rebinding).
  http-request deny deny_status 403 if { req.fhdr(host) -m found } !{ req.fhdr(host) -m reg -i ${HOST_PATTERN} }
  # Who names another host in the request line (absolute form) is answered as who does not.
  http-request set-uri %[pathq] if { url_beg -i http:// }
  http-request deny deny_status 400 unless { path_beg / }
  http-request set-var(txn.forwarded) bool(true) if { req.hdr_names -m reg ${FORWARDED_PATTERN} }
  http-request del-header ${IDENTITY_PATTERN} -m reg
  http-request set-header ${LISTENER_HEADERS.network} %[var(txn.guest),field(1,|)]
  http-request set-header ${LISTENER_HEADERS.subject} %[var(txn.guest),field(2,|)]
  http-request set-header ${LISTENER_HEADERS.source} %[var(txn.guest),field(3,|)]
  http-request set-header ${LISTENER_HEADERS.claimed} %[src]
  http-request set-header ${LISTENER_HEADERS.clientForwarded} 1 if { var(txn.forwarded) -m bool }
  default_backend metadata
`;
}

/** Whatever a server may take for the sign: all but letters and digits. haproxy has names in lower case. */
function anySpelling(name: string): string {
  return name.replaceAll("-", "[^a-z0-9]");
}

const IDENTITY_PATTERN = `'^(${IDENTITY_PREFIXES.map(anySpelling).join("|")})'`;
const FORWARDED_PATTERN = `'(^|,)${anySpelling("x-forwarded-for")}(,|$)'`;

/** Addresses, and names that no public name server answers for: a single word, or below `internal`. */
const HOST_PATTERN = String.raw`'^([0-9.]+|\[[^]]*\]|[a-z0-9_-]+\.?|[a-z0-9_.-]+\.internal\.?)?(:[0-9]*)?$'`;

/** As `http-error` and `http-response return` take it. */
function answer(status: number): string {
  const [, sentence, header] = SENTENCES.find(([one]) => one === status) as (typeof SENTENCES)[number];
  const more = header === undefined ? "" : ` hdr ${header}`;
  return `status ${status} content-type "text/plain; charset=utf-8" string "${sentence}\\n"${more}`;
}

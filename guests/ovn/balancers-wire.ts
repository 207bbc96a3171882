import { PORT_MAX } from "../../platform/host-port.ts";
import { JsonFields } from "../../platform/json-fields.ts";
import type { Report } from "../long-poll.ts";

const BACKEND = /^\d{1,3}(\.\d{1,3}){3}:[1-9]\d{0,4}$/;

/** The long poll between metadata-net, which may write the node's northbound database, and `holdfast metadata`. */
export interface BalancerReport extends Report {
  /** Primary networks of OVN-Kubernetes that have a switch here, by name. Nothing is wanted for others. */
  readonly networks: readonly string[];
  /** Networks whose balancer was made, changed or put back since the last exchange. */
  readonly written: readonly string[];
  readonly problems: readonly BalancerProblem[];
}

export interface BalancerProblem {
  readonly network: string;
  /** failed: there is no balancer. no-router: there is one, and guests do not reach it. */
  readonly kind: "failed" | "no-router";
  readonly problem: string;
}

export interface WantedBalancers {
  /** Another one for each change. */
  readonly version: string;
  /** This node's name in Kubernetes, which is also the zone of a database that is this node's alone. */
  readonly node: string;
  readonly balancers: readonly WantedBalancer[];
}

export interface WantedBalancer {
  readonly network: string;
  /** `10.20.0.30:8080`, on the network; empty: connections are refused. null: not known now, what is there stays. */
  readonly backends: readonly string[] | null;
  /** Further ports of 169.254.169.254, each with backends; not looked at when those of port 80 are not known. */
  readonly ports: readonly WantedEntry[];
}

interface WantedEntry {
  readonly port: number;
  readonly backends: readonly string[];
}

export const BALANCERS_PATH = "/v1/metadata/balancers";

/** Throws Error. */
export function readWantedBalancers(value: unknown): WantedBalancers {
  const wanted = new JsonFields(value);
  const balancers = wanted.list("balancers", readBalancer);
  if (new Set(balancers.map(({ network }) => network)).size < balancers.length)
    throw new Error("balancers: expected each network once");
  return { version: wanted.string("version"), node: wanted.string("node"), balancers };
}

function readBalancer(value: unknown): WantedBalancer {
  const balancer = new JsonFields(value);
  return {
    network: balancer.string("network", (text) => text !== ""),
    backends: balancer.get("backends") === null ? null : readBackends(balancer),
    ports: balancer.list("ports", readEntry),
  };
}

function readEntry(value: unknown): WantedEntry {
  const entry = new JsonFields(value);
  return { port: entry.integer("port", 1, PORT_MAX), backends: readBackends(entry) };
}

function readBackends(fields: JsonFields): string[] {
  const backends = fields.strings("backends");
  if (backends.some((one) => !BACKEND.test(one))) throw new Error("backends: expected addresses with ports");
  return backends;
}

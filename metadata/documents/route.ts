/*
 * metadata/documents/: what a guest is answered. Pure
 *
 *   route                         any request, to an answer
 *   instance, guest-network       what is known of a VM
 *   openstack, openstack-versions, meta-data-json, network-data   the OpenStack tree
 *   ec2, imds-tokens              Amazon's tree and its tokens
 *   nocloud, network-config       cloud-init's own
 *   machine-template, machine/    what a Metal3DataTemplate says of one machine
 *   vm-template                   what it says of a VM
 */

import { Buffer } from "node:buffer";
import { type Answer, sentence, withoutBody } from "./answer.ts";
import { ec2Answer, ec2Versions } from "./ec2.ts";
import { TOKEN_HEADER, TOKEN_TTL_HEADER, type TokenOptions, tokenAnswer, tokenObjection } from "./imds-tokens.ts";
import type { Instance } from "./instance.ts";
import { noCloudAnswer } from "./nocloud.ts";
import { isPasswordPath, openStackAnswer, passwordAnswer } from "./openstack.ts";
import { readTarget } from "./request-path.ts";

export interface MetadataRequest {
  readonly method: string;
  /** The request target as it was sent, with query. */
  readonly target: string;
  /** Names in any case; a name that was sent twice has its values in a list, or joined with commas. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: Buffer;
  /** The client itself sent X-Forwarded-For. Headers that our own listener added do not count. */
  readonly clientForwarded: boolean;
}

export interface MetadataOptions extends TokenOptions {
  /** Random bytes for `random_seed`, new at each call; null: there is none. */
  readonly seed: (() => Buffer) | null;
}

const TOKEN_PATH = "latest/api/token";

/**
 * The answer to any request whatsoever; never throws. Without instance (nobody, or more than one, is known at the
 * source) only the versions are listed, and 404 else, as by Nova. `nowMs`: of the wall clock, by which tokens end.
 */
export function respond(
  request: MetadataRequest,
  instance: Instance | null,
  options: MetadataOptions,
  nowMs: number,
): Answer {
  const isHead = request.method === "HEAD";
  const answer = dispatch(isHead ? { ...request, method: "GET" } : request, instance, options, nowMs);
  return isHead ? withoutBody(answer) : answer;
}

function dispatch(
  request: MetadataRequest,
  instance: Instance | null,
  options: MetadataOptions,
  nowMs: number,
): Answer {
  const { method, headers } = request;
  const read = readTarget(request.target);
  if (read.kind === "bad") return sentence(read.status, read.why);
  const { segments } = read;
  const path = segments.join("/");
  if (path === "") return method === "GET" ? ec2Versions() : notAllowed("GET, HEAD");
  if (instance === null) return sentence(404, "No instance is known at this address.");
  if (path === TOKEN_PATH) {
    if (method !== "PUT") return notAllowed("PUT");
    const { clientForwarded } = request;
    return tokenAnswer({ ttl: header(headers, TOKEN_TTL_HEADER), clientForwarded }, instance.uuid, options, nowMs);
  }
  const objection = tokenObjection(header(headers, TOKEN_HEADER), instance.uuid, options, nowMs);
  if (objection) return objection;
  const [tree, ...below] = segments;
  if (tree === "openstack" && isPasswordPath(below)) {
    return passwordAnswer({ method, body: request.body ?? Buffer.alloc(0) }, instance);
  }
  if (method !== "GET") return notAllowed("GET, HEAD");
  switch (tree) {
    case "openstack":
      return openStackAnswer(below, instance, { seed: options.seed });
    case "nocloud":
      return noCloudAnswer(below, instance);
    // Nova's second name for what is at the root.
    case "ec2":
      return ec2Answer(below, instance);
    default:
      return ec2Answer(segments, instance);
  }
}

function notAllowed(allow: string): Answer {
  return sentence(405, `Only ${allow} ${allow.includes(",") ? "are" : "is"} possible here.`, { allow });
}

/** The value of a header; one that was sent twice is a list joined with commas, and so is valid nowhere here. */
function header(headers: MetadataRequest["headers"], wanted: string): string | undefined {
  const values: string[] = [];
  for (const [name, value] of Object.entries(headers)) {
    if (name.toLowerCase() !== wanted || value === undefined) continue;
    values.push(...(typeof value === "string" ? [value] : value));
  }
  return values.length === 0 ? undefined : values.map((value) => value.trim()).join(", ");
}

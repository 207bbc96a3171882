import type { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { HeaderLine } from "../../guests/haproxy/client-headers.ts";
import { IdentityAway, type IdentitySource, type IdentitySubject } from "../../identity/source.ts";
import type { IdentityView } from "../../identity/wire.ts";
import { type Address, formatAddress } from "../../ipam/space/address.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { QuietLog } from "../../platform/log.ts";
import type { Clock } from "../../platform/time.ts";
import { type Answer, sentence } from "../documents/answer.ts";
import { TOKEN_HEADER, type TokenOptions } from "../documents/imds-tokens.ts";
import { respond } from "../documents/route.ts";
import type { BackendProxy, ProxiedAnswer } from "../proxy/proxy.ts";
import type { SignedIdentity } from "../proxy/signature.ts";
import { instanceOf, projectOf, uuidOf } from "../tenant/instance-of.ts";
import type { Backend, TenantSource } from "../tenant/tenant-source.ts";
import type { GuestMemory, RememberedGuest, Seeds, TokenRules } from "./guest-memory.ts";
import type { Origin } from "./read-request.ts";

export interface AnswerContext {
  readonly identities: IdentitySource;
  readonly tenants: TenantSource;
  readonly proxy: BackendProxy;
  /** Where requests go whose network has no backend of the tenant source; null: they are answered here. */
  defaultBackend(): Backend | null;
  /** The newest first. */
  keys(): readonly Buffer[];
  readonly tokenRules: TokenRules;
  readonly memory: GuestMemory;
  readonly seeds: Seeds;
  readonly log: QuietLog;
  readonly clock: Clock;
}

export interface GuestRequest {
  readonly incoming: Pick<IncomingMessage, "method" | "url" | "headers">;
  readonly lines: readonly HeaderLine[];
  readonly origin: Origin;
  readonly body: Buffer;
  /** A signal that is aborted when the guest leaves. */
  left(): AbortSignal;
}

export interface GuestAnswer {
  /** null: the guest has left. */
  readonly answer: Answer | ProxiedAnswer | null;
  readonly proxied: boolean;
}

/** When a guest may ask again after 503, seconds: cloud-init tries five times. */
const RETRY_AFTER = { "retry-after": "1" };
const UNAVAILABLE = "The metadata server is temporarily unavailable. Please try again later.";

/** The identity is determined for each request; then it is answered here or by the network's backend. */
export async function answerGuest(request: GuestRequest, context: AnswerContext): Promise<GuestAnswer> {
  try {
    return await answer(request, context);
  } catch (error) {
    if (!(error instanceof IdentityAway || error instanceof ApiAway)) throw error;
    context.log.warn({ why: error.name }, "guests are asked to try again", { problem: error.message });
    return served(sentence(503, UNAVAILABLE, RETRY_AFTER));
  }
}

async function answer(request: GuestRequest, context: AnswerContext): Promise<GuestAnswer> {
  const { subject } = request.origin;
  const { network } = subject;
  const { identities, tenants, log } = context;
  const identity = await identities.find(subject);
  const backend = (await tenants.backendOf(network)) ?? context.defaultBackend();
  if (identity === null) {
    log.warn({ network }, "nobody is known where a request came from", describe(request.origin));
    // A backend is not asked: it could not be told who the guest is.
    if (backend) return { proxied: true, answer: sentence(404, "No instance is known at this address.") };
    return served(respond(asked(request), null, { tokens: "off", tokenKeys: [], seed: null }, 0));
  }
  return backend ? forward(request, identity, backend, context) : served(await serve(request, identity, context));
}

async function serve(request: GuestRequest, identity: IdentityView, context: AnswerContext): Promise<Answer> {
  const { tenants, keys, tokenRules, memory, seeds, clock } = context;
  const guest = memory.page.of(identity) ?? (await compose(identity, context));
  const tokens = tokenRules.of(identity, request.origin.subject.network);
  const seed = () => seeds.next();
  const answer = (of: () => Buffer) =>
    respond(asked(request), guest.instance, { tokens, tokenKeys: keys(), seed: of }, clock.wallMs());
  if (isPlain(request, tokens)) return guest.answer(request.incoming.url ?? "", seed, answer);
  const { effect, ...given } = answer(seed);
  if (effect === undefined) return given;
  try {
    switch (await tenants.keepPassword(identity, effect.password)) {
      case "kept":
        return given;
      case "taken":
        return sentence(409, "The password is already set.");
      case "refused":
        return sentence(403, "Passwords cannot be kept here.");
    }
  } finally {
    // The guest reads what it has just sent.
    memory.forget();
  }
}

async function compose(identity: IdentityView, { tenants, memory }: AnswerContext): Promise<RememberedGuest> {
  const { page } = memory;
  return page.put(identity, instanceOf(identity, await tenants.viewOf(identity)));
}

/** Does its answer depend on nothing but who asks for what? */
function isPlain({ incoming, lines }: GuestRequest, tokens: TokenOptions["tokens"]): boolean {
  if (incoming.method !== "GET" || tokens === "required") return false;
  return !lines.some(([name]) => name.length === TOKEN_HEADER.length && name.toLowerCase() === TOKEN_HEADER);
}

async function forward(
  { incoming, lines, body, left, origin }: GuestRequest,
  identity: IdentityView,
  backend: Backend,
  { tenants, proxy }: AnswerContext,
): Promise<GuestAnswer> {
  const tenant = await tenants.viewOf(identity);
  const { method = "", url = "" } = incoming;
  const { network } = origin.subject;
  const source = origin.source ?? recordedOn(network, identity);
  if (source === null) throw new Error(`an identity without an address on network ${network}`);
  const signed: SignedIdentity = {
    instanceId: uuidOf(identity, tenant.firmwareUuid),
    tenantId: projectOf(identity, tenant).projectId,
    network,
    source,
  };
  const sent = { method, target: url, headers: lines, body, signal: left() };
  return { proxied: true, answer: await proxy.forward(sent, backend, signed) };
}

function asked({ incoming, body, origin }: GuestRequest): Parameters<typeof respond>[0] {
  const { method = "", url = "", headers } = incoming;
  return { method, target: url, headers, body, clientForwarded: origin.clientForwarded };
}

/** The first recorded address there; null: none. */
function recordedOn(network: string, { interfaces }: IdentityView): Address | null {
  const [first] = interfaces.filter((one) => one.network === network).flatMap(({ addresses }) => addresses);
  return first === undefined ? null : parseInterfaceAddress(first.address).address;
}

function describe({ subject, source, claimed }: Origin): Readonly<Record<string, string>> {
  return {
    subject: subjectText(subject),
    ...(source === null ? {} : { source: formatAddress(source) }),
    ...(claimed === null ? {} : { claimed }),
  };
}

function subjectText(subject: IdentitySubject): string {
  switch (subject.kind) {
    case "attachment":
      return `container ${subject.containerId}, interface ${subject.interface}`;
    case "pod":
      return `pod ${subject.uid}`;
    case "address":
      return `address ${subject.address}`;
  }
}

function served(answer: Answer): GuestAnswer {
  return { answer, proxied: false };
}

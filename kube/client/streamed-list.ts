import type { ListRequest, OnList } from "../kube-api.ts";
import type { AttemptOutcome, KubeTransport, ListPageRequest } from "./kube-transport.ts";
import { counted } from "./listed-page.ts";

/** The bookmark with this annotation ends what is there at the beginning of a watch (KEP 3157). */
const INITIAL_EVENTS_END = "k8s.io/initial-events-end";
/** Ends one that brings no such bookmark, seconds: servers before 1.19 overlook what they do not know. */
const STREAM_SECONDS_MAX = "900";

/** Only servers with WatchList take these: 1.19 to 1.26 refuse the second, later ones without it the first (422). */
const ASKED = {
  watch: "true",
  sendInitialEvents: "true",
  resourceVersionMatch: "NotOlderThan",
  allowWatchBookmarks: "true",
  timeoutSeconds: STREAM_SECONDS_MAX,
} as const;

/** `resourceVersion`: of the state that was read, from which it can be watched. */
type StreamOutcome = { readonly kind: "read"; readonly resourceVersion: string } | AttemptOutcome;

type StreamedRequest = Omit<ListPageRequest, "arrived"> & Required<Pick<ListRequest, "streamed">>;

/** A whole list as the beginning of a watch, once; given up after `silenceMs` of silence. See docs/decisions/0079. */
export function readStream(
  transport: KubeTransport,
  request: StreamedRequest,
  silenceMs: number,
  onList: OnList | undefined,
): Promise<StreamOutcome> {
  const { gone } = request.streamed;
  return counted({ ...request, arrived: undefined }, "stream", onList, async (page) => {
    const ends = new AbortController();
    const end = () => ends.abort();
    const silence = transport.clock.timer(silenceMs, end);
    page.signal?.addEventListener("abort", end);
    if (page.signal?.aborted) end();
    let resourceVersion: string | null = null;
    const event = (type: string, object: StreamedObject) => {
      silence.restart();
      if (resourceVersion !== null) return;
      if (type === "ADDED" || type === "MODIFIED") page.each(object);
      else if (type === "DELETED") gone(object);
      else if (object.metadata?.annotations?.[INITIAL_EVENTS_END] === "true") {
        resourceVersion = object.metadata.resourceVersion ?? "";
        end();
      }
    };
    try {
      const { path, metadataOnly = false, arrived } = page;
      const query = { ...page.query, ...ASKED };
      const { signal } = ends;
      const outcome = await transport.watch(
        { path, query, metadataOnly, signal, event, arrived, opened: () => silence.restart() },
        silenceMs,
      );
      if (resourceVersion !== null) return { kind: "read", resourceVersion };
      if (outcome.kind === "answered" || outcome.kind === "nothing") return outcome;
      const problem = outcome.kind === "closed" ? "the stream ended before it was complete" : outcome.problem;
      return { kind: "nothing", problem };
    } finally {
      silence.cancel();
      page.signal?.removeEventListener("abort", end);
    }
  });
}

interface StreamedObject {
  readonly metadata?: {
    readonly resourceVersion?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

/**
 * What a node's listener tells the metadata server of a request, on a socket that only it can reach, after it took
 * these headers out of the guest's request. All but `claimed` follows from the port that the connection came in at.
 */
export const LISTENER_HEADERS = {
  /** Name of the network of the port. */
  network: "x-holdfast-network",
  /** Who is behind the port: `container/<container ID>/<interface>` (encodeURIComponent), or with OVN `pod/<UID>`. */
  subject: "x-holdfast-subject",
  /** The recorded address of the attachment, IPv4 first. */
  source: "x-holdfast-source",
  /** What the guest calls itself: the address of its end of the connection. For logs only. */
  claimed: "x-holdfast-claimed",
  /** `1` when the guest itself sent X-Forwarded-For in any spelling; else absent. */
  clientForwarded: "x-holdfast-client-forwarded",
} as const;

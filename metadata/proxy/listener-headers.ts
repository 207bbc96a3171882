/**
 * What the listener on a node tells the metadata server of each request, on a socket that only it can reach. It takes
 * every header of these names out of the guest's request first.
 */
export const LISTENER_HEADERS = {
  /** Name of the network whose listener the request came to: never what a guest says. */
  network: "x-holdfast-network",
  /** Address of the guest's end of the connection. */
  source: "x-holdfast-source",
  /** `1` when the guest itself sent X-Forwarded-For in any spelling; else absent. */
  clientForwarded: "x-holdfast-client-forwarded",
} as const;

export interface HostPort {
  /** "": every address. */
  readonly host: string;
  readonly port: number;
}

/** `host:port`, `:port`, `[fd00::1]:port`, and `fd00::1:port` as it comes of a pod's status.hostIP. */
export const HOST_PORT = /^(\[[0-9a-fA-F:]+\]|[0-9a-fA-F]*:[0-9a-fA-F:]*|[^:[\]]*):\d{1,5}$/;

/** Reads what HOST_PORT matches. Throws an Error when there is no such port. */
export function parseHostPort(text: string): HostPort {
  const colon = text.lastIndexOf(":");
  const port = Number(text.slice(colon + 1));
  if (port > 65_535) throw new Error("no such port");
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ""), port };
}

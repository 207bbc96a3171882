export interface HostPort {
  /** "": every address. */
  readonly host: string;
  readonly port: number;
}

/** `host:port`, `:port`, `[fd00::1]:port`, and `fd00::1:port` as it comes of a pod's status.hostIP. */
const HOST_PORT = /^(\[[0-9a-fA-F:]+\]|[0-9a-fA-F]*:[0-9a-fA-F:]*|[^:[\]]*):\d{1,5}$/;

export const PORT_MAX = 65_535;

export const HOST_PORT_EXPECTED = `expected host:port, with a port up to ${PORT_MAX}`;

export function isHostPort(text: string): boolean {
  return HOST_PORT.test(text) && portOf(text) <= PORT_MAX;
}

/** Reads what isHostPort accepts. */
export function parseHostPort(text: string): HostPort {
  const colon = text.lastIndexOf(":");
  const port = portOf(text);
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ""), port };
}

function portOf(text: string): number {
  return Number(text.slice(text.lastIndexOf(":") + 1));
}

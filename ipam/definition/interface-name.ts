import { Buffer } from "node:buffer";

/** IFNAMSIZ of the kernel without the terminating zero. */
const INTERFACE_NAME_BYTES_MAX = 15;

/** Whether Linux accepts it as an interface's name. Control characters, which the kernel accepts too, are refused. */
export function isInterfaceName(text: string): boolean {
  return (
    /^[^/:\s\p{C}]+$/u.test(text) &&
    Buffer.byteLength(text) <= INTERFACE_NAME_BYTES_MAX &&
    text !== "." &&
    text !== ".."
  );
}

import { Buffer } from "node:buffer";

/** IFNAMSIZ of the kernel without its end. */
const INTERFACE_NAME_BYTES_MAX = 15;

/** Whether Linux takes it as the name of an interface. The kernel takes control characters as well; here they are refused. */
export function isInterfaceName(text: string): boolean {
  return (
    /^[^/:\s\p{C}]+$/u.test(text) &&
    Buffer.byteLength(text) <= INTERFACE_NAME_BYTES_MAX &&
    text !== "." &&
    text !== ".."
  );
}

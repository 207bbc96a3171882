import type { Buffer } from "node:buffer";
import { type Answer, NOT_FOUND, sentence, textAnswer } from "./answer.ts";
import type { Instance } from "./instance.ts";

/** Nova's limit. An RSA-4096 cipher text in base64 has 684 bytes. */
export const PASSWORD_BYTES_MAX = 1_020;

/**
 * The password that a guest made up and encrypted with its owner's public key: sent once, read by anyone in the guest.
 * GET answers what is stored, or nothing; the first POST is kept (as an effect), a second is a conflict. An empty POST
 * keeps nothing. 404 where no passwords are kept.
 */
export function passwordAnswer(
  { method, body }: { readonly method: string; readonly body: Buffer },
  instance: Instance,
): Answer {
  if (instance.password === null) return NOT_FOUND;
  const { stored } = instance.password;
  if (method === "GET" || method === "HEAD") return textAnswer(stored ?? "");
  if (method !== "POST") return sentence(400, "A password can be read with GET and set once with POST.");
  if (stored !== null && stored.length > 0) return sentence(409, "The password is already set.");
  if (body.length > PASSWORD_BYTES_MAX) {
    return sentence(400, `A password has at most ${PASSWORD_BYTES_MAX} bytes.`);
  }
  if (body.length === 0) return textAnswer("");
  return {
    ...textAnswer(""),
    effect: { kind: "keepPassword", instanceUuid: instance.uuid, password: body },
  };
}

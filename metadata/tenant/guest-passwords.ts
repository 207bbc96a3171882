import { Buffer } from "node:buffer";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { problemOf } from "../../kube/answers.ts";
import { ApiAway, type KubeAnswer, type KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { PASSWORDS_CONFIG_MAP, SERVE_LABEL } from "../../kube/views/content-annotations.ts";
import { CONFIG_MAPS_PATH } from "../../kube/views/tenant-objects.ts";

/** For all of it, ms: a guest's client waits 10 s. */
const DEADLINE_MS = 5_000;

export interface GuestPassword {
  readonly namespace: string;
  /** UID of the VM: another VM under its name is another guest. */
  readonly key: string;
  readonly password: Buffer;
}

export type KeptPassword = { readonly kind: "kept" | "taken" } | { readonly kind: "refused"; readonly problem: string };

/**
 * Writes a password into the namespace's ConfigMap unless it has one for the VM already. Two writers at once: one is
 * kept, the other finds it taken, since each writes only over the version that it read. Throws ApiAway.
 */
export async function keepGuestPassword(api: KubeApi, wanted: GuestPassword): Promise<KeptPassword> {
  const path = namespacedPath(CONFIG_MAPS_PATH, wanted.namespace, PASSWORDS_CONFIG_MAP);
  const deadlineMs = api.clock.monotonicMs() + DEADLINE_MS;
  const objects = new ObjectClient(api);
  for (let wrote = false; ; wrote = true) {
    const read = await objects.get(path, deadlineMs);
    if (read.kind !== "present") return refused(read.answer, "read");
    const { metadata, data, binaryData } = read.object;
    if (metadata?.labels?.[SERVE_LABEL] !== "true")
      return { kind: "refused", problem: `it has no label ${SERVE_LABEL}: "true"` };
    const present = presentIn(data, binaryData, wanted.key);
    // An answer may have been lost: what is there can be what this very call wrote.
    if (present !== null) return { kind: wrote && present.equals(wanted.password) ? "kept" : "taken" };
    const body = {
      metadata: { resourceVersion: metadata.resourceVersion },
      binaryData: { [wanted.key]: wanted.password.toString("base64") },
      // A key may be in one of the two only.
      ...(isObject(data) && wanted.key in data ? { data: { [wanted.key]: null } } : {}),
    };
    const written = await objects.patch(path, body, deadlineMs);
    if (written.kind === "done") return { kind: "kept" };
    if (written.kind !== "conflict") return refused(written.answer, "written");
    if (api.clock.monotonicMs() > deadlineMs) throw new ApiAway("others kept writing the guests' passwords");
  }
}

/** null: none; an empty one is none, so that an operator can clear it. */
function presentIn(data: unknown, binaryData: unknown, key: string): Buffer | null {
  const plain = isObject(data) ? data[key] : undefined;
  if (typeof plain === "string" && plain !== "") return Buffer.from(plain, "utf8");
  const encoded = isObject(binaryData) ? binaryData[key] : undefined;
  return typeof encoded === "string" && encoded !== "" ? Buffer.from(encoded, "base64") : null;
}

function refused(answer: KubeAnswer, what: string): KeptPassword {
  return { kind: "refused", problem: `it cannot be ${what}: ${problemOf(answer)}` };
}

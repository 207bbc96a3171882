import { Buffer } from "node:buffer";
import { isObject } from "../../ipam/definition/definition-keys.ts";
import { ApiAway, type KubeAnswer, type KubeApi } from "../../kube/kube-api.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { PASSWORDS_CONFIG_MAP, SERVE_LABEL } from "../../kube/views/content-annotations.ts";
import { CONFIG_MAPS_PATH } from "../../kube/views/tenant-objects.ts";

/** For all of it, ms: a guest's client waits 10 s. */
const DEADLINE_MS = 5_000;
const CONFLICT = 409;

export interface GuestPassword {
  readonly namespace: string;
  /** UID of the VM: another VM under its name is another guest. */
  readonly key: string;
  readonly password: Buffer;
}

export type KeptPassword =
  | { readonly kind: "kept" | "taken" }
  | { readonly kind: "refused"; readonly problem: string };

/**
 * Writes a password into the namespace's ConfigMap unless it has one for the VM already. Two writers at once: one is kept,
 * the other finds it taken, since each writes only over the version that it read. Throws ApiAway.
 */
export async function keepGuestPassword(api: KubeApi, wanted: GuestPassword): Promise<KeptPassword> {
  const path = namespacedPath(CONFIG_MAPS_PATH, wanted.namespace, PASSWORDS_CONFIG_MAP);
  const deadlineMs = performance.now() + DEADLINE_MS;
  const request = { path, priority: "housekeeping", deadlineMs } as const;
  for (let wrote = false; ; wrote = true) {
    const read = await api.send({ ...request, method: "GET" });
    if (read.status !== 200) return refused(read, "read");
    const { metadata, data, binaryData } = read.body;
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
    const written = await api.send({ ...request, method: "PATCH", patch: "merge", body });
    if (written.status === 200) return { kind: "kept" };
    if (written.status !== CONFLICT) return refused(written, "written");
    if (performance.now() > deadlineMs) throw new ApiAway("others kept writing the guests' passwords");
  }
}

/** null: none; an empty one is none, so that an operator can clear it. */
function presentIn(data: unknown, binaryData: unknown, key: string): Buffer | null {
  const plain = isObject(data) ? data[key] : undefined;
  if (typeof plain === "string" && plain !== "") return Buffer.from(plain, "utf8");
  const encoded = isObject(binaryData) ? binaryData[key] : undefined;
  return typeof encoded === "string" && encoded !== "" ? Buffer.from(encoded, "base64") : null;
}

function refused({ status, body }: KubeAnswer, what: string): KeptPassword {
  const said = typeof body?.message === "string" ? ` ${body.message}` : "";
  return { kind: "refused", problem: `it cannot be ${what}: ${status}${said}` };
}

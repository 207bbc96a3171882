import { problemOf } from "../../kube/answers.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { namespacedPath } from "../../kube/objects.ts";
import { type DesiredMachineStatus, machineStatusPatch } from "../../kube/views/machine-claim-status.ts";
import { type MachineClaimView, projectMachineClaim } from "../../kube/views/machine-claim-view.ts";
import { isoTime } from "../../platform/time.ts";
import type { MachineCaches } from "./machine-caches.ts";

export type StatusWritten =
  | { readonly kind: "unchanged" }
  /** `version`: the resourceVersion of the claim that the write has made. */
  | { readonly kind: "done"; readonly version: string }
  | { readonly kind: "later"; readonly problem: string };

/** Writes the statuses of claims, in the forms of conditions that the server keeps. */
export class ClaimStatus {
  readonly #api: KubeApi;
  readonly #claims: Pick<MachineCaches["claims"], "path">;
  readonly #objects: ObjectClient;
  /** The path whose version drops the present form: Cluster API before 1.9 has no `status.v1beta2`. null: none. */
  #dropping: string | null = null;

  constructor(api: KubeApi, claims: Pick<MachineCaches["claims"], "path">) {
    this.#api = api;
    this.#claims = claims;
    this.#objects = new ObjectClient(api);
  }

  says(claim: MachineClaimView, desired: DesiredMachineStatus): boolean {
    return this.#patch(claim, desired) === null;
  }

  /** Holds only against the version that was read. Throws ApiAway. */
  async write(claim: MachineClaimView, desired: DesiredMachineStatus): Promise<StatusWritten> {
    const { path } = this.#claims;
    const patch = this.#patch(claim, desired);
    if (patch === null) return { kind: "unchanged" };
    const written = await this.#objects.patchStatus(namespacedPath(path, claim.namespace, claim.name), patch);
    if (written.kind !== "done")
      return { kind: "later", problem: `its status was not written: ${problemOf(written.answer)}` };
    const { otherConditions, resourceVersion } = projectMachineClaim(written.object);
    if (otherConditions.length > 0) this.#dropping = null;
    else if (versionOf(path) === "v1beta1") this.#dropping = path;
    return { kind: "done", version: resourceVersion };
  }

  #patch(claim: MachineClaimView, desired: DesiredMachineStatus): object | null {
    const { path } = this.#claims;
    const bothForms = claim.otherConditions.length > 0 || this.#dropping !== path;
    return machineStatusPatch(claim, versionOf(path), desired, isoTime(this.#api.clock.wallMs()), {
      bothForms,
    });
  }
}

function versionOf(path: string): string {
  return path.split("/")[3] ?? "";
}

import { problemOf } from "../../kube/answers.ts";
import type { EventWriter } from "../../kube/events.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { DATA_CLAIMS_PATH, MACHINE_DATAS_PATH } from "../../kube/metal3.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import { NAME_CHARS_MAX } from "../../kube/object-names.ts";
import { namespacedPath } from "../../kube/objects.ts";
import {
  type DataClaimView,
  type DataTemplateView,
  type MachineDataView,
  projectDataClaim,
  projectMachineData,
} from "../../kube/views/machine-data-view.ts";
import { claimNameOf, dataBody, dataName, eventObject, isDataOf, readDataName } from "./data-bodies.ts";
import { type DataStatus, failed, waiting } from "./data-status.ts";
import type { DataWorld } from "./data-world.ts";
import type { WorkQueue } from "./work-queue.ts";

/** Names tried for one claim before the others get their turn. */
const NAMES_PER_TURN = 64;

export interface ClaimIndexingOptions {
  readonly api: KubeApi;
  readonly world: DataWorld;
  readonly status: DataStatus;
  readonly events: Pick<EventWriter, "warn">;
  readonly queue: Pick<WorkQueue, "hasWaited">;
}

/** A claim's `status.renderedData` as it is durable, and the version to change it at. */
interface Intent {
  readonly claim: DataClaimView;
  readonly index: number;
}

/**
 * Gives each Metal3DataClaim an index of its template, and the Metal3Data of that index. Two locks at the API server
 * need no leader: the claim's `status.renderedData`, written at the version that was read, is the intent, so that no
 * claim gets two data objects; the name of the data object is the index, so that no index has two claims.
 */
export class ClaimIndexing {
  readonly #options: ClaimIndexingOptions;
  readonly #objects: ObjectClient;

  constructor(options: ClaimIndexingOptions) {
    this.#options = options;
    this.#objects = new ObjectClient(options.api);
  }

  /** Returns whether nothing is left to do. Throws ApiAway. */
  async settle(claim: DataClaimView): Promise<boolean> {
    const { world, status } = this.#options;
    if (claim.deletionTimestamp !== null) return true;
    if (claim.paused || world.clusterProblem(claim) !== null) return false;
    const known = claim.renderedData === null ? undefined : world.dataAt(claim, claim.renderedData);
    if (known !== undefined && isDataOf(known, claim)) {
      await status.writeClaim(claim, null);
      return true;
    }
    const problem = problemOfTemplateName(claim);
    if (problem !== null) return this.#fail(claim, problem);
    const template = world.caches.templates.items.get(`${claim.namespace}/${claim.template.name}`);
    if (template === undefined || template.deletionTimestamp !== null) {
      const which = `Metal3DataTemplate ${claim.namespace}/${claim.template.name}`;
      const message = template === undefined ? `${which} does not exist` : `${which} is being deleted`;
      if (this.#options.queue.hasWaited("claims", claim.key))
        await status.writeClaim(claim, waiting("WaitingForTemplate", message));
      return false;
    }
    if (template.paused) return false;
    const wrong = world.readTemplate(template).problem;
    if (wrong !== null) return this.#fail(claim, `Metal3DataTemplate ${template.key}: ${wrong}`);
    return this.#give(claim, template);
  }

  async #give(claim: DataClaimView, template: DataTemplateView): Promise<boolean> {
    let intent = await this.#intent(claim, template);
    for (let tried = 0; intent !== null && tried < NAMES_PER_TURN; tried += 1) {
      const made = await this.#make(intent, template);
      if (made !== "taken") return made === "made";
      intent = await this.#intend(intent.claim, template, intent.index + 1);
    }
    return false;
  }

  /** What the claim says, else a data object of its own, else the lowest index. null: as `#intend`, or later. */
  async #intent(claim: DataClaimView, template: DataTemplateView): Promise<Intent | null> {
    const { world } = this.#options;
    if (claim.renderedData !== null) {
      const named = readDataName(claim.renderedData);
      const index = named?.series === template.series ? named.index : null;
      const data = world.dataAt(claim, claim.renderedData);
      if (index !== null && data === undefined) return { claim, index };
      if (data !== undefined && claimNameOf(data) === claim.name && isSound(data, template))
        return this.#awaitFormer(claim, data);
    }
    const own = world.datasOfClaim(claim).find((data) => isDataOf(data, claim) && isSound(data, template));
    return this.#intend(claim, template, own?.index ?? 0, own !== undefined);
  }

  /** After a restore with new UIDs: the data object goes, and is made again under the index that the claim says. */
  async #awaitFormer(claim: DataClaimView, data: MachineDataView): Promise<null> {
    const { status, queue } = this.#options;
    const message = `Metal3Data ${data.name} is of a former Metal3DataClaim of this name, and is made again once it is deleted`;
    if (queue.hasWaited("claims", claim.key)) await status.writeClaim(claim, waiting("WaitingForFormerData", message));
    return null;
  }

  /** The lowest index from `from` on, or exactly that. null: another writer was faster, or the server refuses. */
  async #intend(
    claim: DataClaimView,
    template: DataTemplateView,
    from: number,
    exactly = false,
  ): Promise<Intent | null> {
    const { world } = this.#options;
    // Of a try whose outcome is unknown: what it left in the claim is seen as a conflict.
    world.forgetIntent(claim.uid);
    const index = exactly ? from : world.indexes.lowestFree(seriesKey(template), from);
    if (index === null) return this.#failNull(claim, `${template.key} has no free index`);
    const name = dataName(template.series, index);
    if (name.length > NAME_CHARS_MAX) {
      const message = `the name ${name} has ${name.length} characters, and Kubernetes accepts ${NAME_CHARS_MAX}: use a template with a shorter name`;
      return this.#failNull(claim, message);
    }
    // Before the write: other claims are given theirs meanwhile.
    world.noteIntent(claim.uid, seriesKey(template), index);
    const written = await this.#objects.patchStatus(namespacedPath(DATA_CLAIMS_PATH, claim.namespace, claim.name), {
      metadata: { resourceVersion: claim.resourceVersion },
      status: {
        renderedData: { name, namespace: claim.namespace },
        errorMessage: null,
        conditions: conditionsWithIndex(claim),
      },
    });
    if (written.kind === "done") return { claim: projectDataClaim(written.object), index };
    world.forgetIntent(claim.uid);
    return null;
  }

  async #make({ claim, index }: Intent, template: DataTemplateView): Promise<"made" | "taken" | "later"> {
    const collection = namespacedPath(MACHINE_DATAS_PATH, claim.namespace);
    const created = await this.#objects.create(collection, dataBody(claim, template, index));
    if (created.kind === "done") return "made";
    if (created.kind !== "conflict") {
      await this.#fail(claim, `its data object cannot be created: ${problemOf(created.answer)}`);
      return "later";
    }
    const path = namespacedPath(MACHINE_DATAS_PATH, claim.namespace, dataName(template.series, index));
    const object = await this.#objects.find(path);
    if (object === null) return "later";
    return isDataOf(projectMachineData(object), claim) ? "made" : "taken";
  }

  async #fail(claim: DataClaimView, message: string): Promise<boolean> {
    const { status, events } = this.#options;
    events.warn(eventObject("Metal3DataClaim", claim), "NoIndex", message);
    await status.writeClaim(claim, failed("NoIndex", message));
    return false;
  }

  async #failNull(claim: DataClaimView, message: string): Promise<null> {
    await this.#fail(claim, message);
    return null;
  }
}

/** What the claim waited for is over. */
function conditionsWithIndex({ conditions }: DataClaimView): unknown {
  const others = conditions.filter(({ type }) => type !== "Ready");
  return others.length === 0 ? null : others;
}

function isSound(data: MachineDataView, template: DataTemplateView): boolean {
  return data.template.name === template.name && data.name === dataName(template.series, data.index);
}

/** Templates of one series share their indexes. */
function seriesKey({ namespace, series }: DataTemplateView): string {
  return `${namespace}/${series}`;
}

function problemOfTemplateName({ template, namespace }: DataClaimView): string | null {
  if (template.name === "") return "spec.template.name must be set";
  if (template.namespace === "" || template.namespace === namespace) return null;
  return `spec.template.namespace is ${template.namespace}: a template must be in the claim's own namespace, ${namespace}`;
}

import { isObject } from "../../ipam/definition/definition-keys.ts";
import type { KubeApi } from "../../kube/kube-api.ts";
import { INFRASTRUCTURE_GROUP } from "../../kube/metal3.ts";
import { ObjectClient } from "../../kube/object-client.ts";
import type { Log } from "../../platform/log.ts";

const DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DATA_KINDS = ["metal3datatemplates", "metal3dataclaims", "metal3datas"];
const PROVIDER_LABEL = "cluster.x-k8s.io/provider";
const CAPM3 = "infrastructure-metal3";
/** Nothing is written on a look that is older, ms: CAPM3 may have been installed meanwhile. */
const AGE_MS_MAX = 2_000;

/**
 * Whether Holdfast may write the data kinds. Two controllers that both reconcile them would give a machine two indexes,
 * so where CAPM3 has installed its definitions, Holdfast leaves them alone.
 */
export class KindOwner {
  readonly #api: KubeApi;
  readonly #log: Pick<Log, "info" | "warn">;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #problem: string | null = "who owns the data kinds was not looked up yet";
  #isForeign = false;
  /** Whoever asks meanwhile waits for the same answer. */
  #looking: Promise<string | null> | null = null;

  constructor(api: KubeApi, log: Pick<Log, "info" | "warn">) {
    this.#api = api;
    this.#log = log;
  }

  /** Whether CAPM3 owns the kinds, as of the last look. */
  get isForeign(): boolean {
    return this.#isForeign;
  }

  /** Why nothing may be written; null: it may. */
  async problem(): Promise<string | null> {
    const nowMs = this.#api.clock.monotonicMs();
    if (nowMs - this.#lookedMs < AGE_MS_MAX) return this.#problem;
    this.#looking ??= this.#lookAgain(nowMs);
    return this.#looking;
  }

  async #lookAgain(nowMs: number): Promise<string | null> {
    try {
      this.#problem = await this.#look();
      this.#lookedMs = nowMs;
      return this.#problem;
    } finally {
      this.#looking = null;
    }
  }

  async #look(): Promise<string | null> {
    const objects = new ObjectClient(this.#api);
    for (const kind of DATA_KINDS) {
      const name = `${kind}.${INFRASTRUCTURE_GROUP}`;
      const reading = await objects.tryGet(`${DEFINITIONS_PATH}/${name}`);
      if (reading.kind === "absent") continue;
      if (reading.kind !== "present") {
        const problem = reading.kind === "away" ? reading.problem : `${reading.answer.status}`;
        return `who owns the definition ${name} cannot be read: ${problem}`;
      }
      const sign = signOfCapm3(reading.object);
      if (sign !== null) return this.#refuse(`CAPM3 owns the definition ${name} (${sign})`);
    }
    if (this.#isForeign) this.#log.info("CAPM3 owns the data kinds no longer: machine data is served");
    this.#isForeign = false;
    return null;
  }

  #refuse(problem: string): string {
    if (!this.#isForeign)
      this.#log.warn({ problem }, "machine data is left to CAPM3; set machineData to off, or uninstall CAPM3");
    this.#isForeign = true;
    return problem;
  }
}

/** What shows that CAPM3 installed a definition; null: nothing does. */
function signOfCapm3(definition: unknown): string | null {
  const { metadata, spec } = isObject(definition) ? definition : {};
  const labels = isObject(metadata) && isObject(metadata.labels) ? metadata.labels : {};
  if (labels[PROVIDER_LABEL] === CAPM3) return `label ${PROVIDER_LABEL}=${CAPM3}`;
  const conversion = isObject(spec) && isObject(spec.conversion) ? spec.conversion : {};
  return conversion.strategy === "Webhook" ? "it has a conversion webhook" : null;
}

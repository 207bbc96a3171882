import { labelSelector } from "../../kube/object-names.ts";
import { ALLOCATIONS_PATH, CLAIMS_PATH, LABEL_CLAIM, namespacedPath } from "../../kube/objects.ts";
import type { KubeApi } from "../../test/harness/kube-api.ts";
import { until } from "../../test/harness/wait.ts";
import { atMost, type Line, type Measurement, number, told } from "../line.ts";
import { median, quantile } from "../statistics.ts";
import { memoryBytesOf, processorMsOf } from "../workbench.ts";
import { KubeBench, NAMESPACE, sleep } from "./kube-bench.ts";
import { ScaleObjects, SUBNET } from "./scale-objects.ts";

const ALLOCATIONS = Number(process.env.HOLDFAST_BENCH_ALLOCATIONS ?? 100_000);
const REQUESTS = 100;
const WRITES = 30;
const CLAIM_WRITES = 10;
const AT_ONCE = 500;
/** Coprime with the number of claims. */
const STEP = 97;
/** The server has collected the garbage of its start. */
const SETTLE_MS = 15_000;
/** What a server says that has no place for a request. */
const BUSY = 429;
const RETRY_MS = 1_000;
/** What it says after 3 s when its cache has not come to a version. */
const TOO_NEW = 504;
/** Only ends a measurement that hangs. */
const WAIT_MS_MAX = 120_000;
const P99 = 0.99;
const FORMS = {
  whole: "application/json",
  metadata: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
} as const;

interface Times {
  readonly ms: readonly number[];
  /** Of the API server and of etcd, for one request. */
  readonly apiServerMs: number;
  readonly etcdMs: number;
  /** Requests that were not answered with what they ask for, by status. */
  readonly refused: ReadonlyMap<number, number>;
}

/** What it costs an API server to list the allocations of one claim, from its cache and at a version. */
export const kubeClaimList: Measurement = () =>
  KubeBench.with(SUBNET, async (bench) => {
    const objects = new ScaleObjects(bench, ALLOCATIONS);
    await objects.define();
    await objects.write({ holders: false });
    const node = bench.cluster.apiAs("holdfast-node");
    try {
      const lists = new ClaimLists(bench, objects, node);
      await lists.settle();
      const lines = [
        ...alone("whole objects", await lists.settled("whole"), lists.against),
        ...alone("metadata only", await lists.settled("metadata"), lists.against),
        ...(await freshLines(lists)),
        await togetherLine(lists, "whole"),
        await togetherLine(lists, "metadata"),
      ];
      const { apiServer } = bench.cluster.pids;
      lines.push(told(megabytes(apiServer), { what: "memory of the API server then", against: lists.against }));
      return [...lines, ...(await comparedLines(lists))];
    } finally {
      node.close();
    }
  });

class ClaimLists {
  readonly against: string;
  readonly #bench: KubeBench;
  readonly #objects: ScaleObjects;
  readonly #node: KubeApi;
  /** Of one allocation. */
  #path = "";

  constructor(bench: KubeBench, objects: ScaleObjects, node: KubeApi) {
    this.#bench = bench;
    this.#objects = objects;
    this.#node = node;
    const { allocations, claims } = objects;
    this.against = `${number(allocations)} allocations on 100 networks, ${number(claims)} claims with one each`;
  }

  async settle(): Promise<void> {
    // A server that fills its cache refuses to list from it.
    await until(async () => (await this.#list(0, "0")).status === 200, "the cache of the API server", WAIT_MS_MAX);
    const { items } = (await this.#list(0, "0")).body;
    this.#path = `${ALLOCATIONS_PATH}/${items[0].metadata.name}`;
    await sleep(SETTLE_MS);
  }

  /** At the claim's version, when allocations were written after it. */
  async settled(form: keyof typeof FORMS): Promise<Times> {
    const versions: string[] = [];
    for (let index = 0; index < REQUESTS; index += 1) versions.push(await this.#versionOf(index));
    await this.writeAllocation();
    return this.#times(REQUESTS, (index) => this.#list(index, versions[index] ?? null, form));
  }

  /** An old server decodes everything that etcd has for it: once is enough, for half a minute and gigabytes. */
  consistent(): Promise<Times> {
    return this.#times(1, (index) => this.#list(index, null));
  }

  byName(): Promise<Times> {
    return this.#times(REQUESTS, () => this.#node.call("GET", this.#path));
  }

  /** Each at the version of a write just before it. */
  async after(count: number, write: (index: number) => Promise<string>): Promise<Times> {
    const versions: string[] = [];
    return this.#times(
      count,
      (index) => this.#list(index, versions[index] ?? null),
      async (index) => {
        versions[index] = await write(index);
      },
    );
  }

  writeAllocation = (): Promise<string> => this.#write(this.#path);

  writeClaim = (index: number): Promise<string> => this.#write(this.#claimPath(index));

  /** Everybody on a connection of its own, tried again while the server has no place. */
  async together(form: keyof typeof FORMS): Promise<Times> {
    const { cluster } = this.#bench;
    const nodes = Array.from({ length: AT_ONCE }, () => cluster.apiAs("holdfast-node"));
    try {
      const versions: string[] = [];
      for (const index of nodes.keys()) versions.push(await this.#versionOf(index));
      await this.writeAllocation();
      await Promise.all(nodes.map((node) => node.get("/version")));
      await sleep(RETRY_MS);
      let busy = 0;
      const before = this.#processorMs();
      const startMs = performance.now();
      const ms = await Promise.all(
        nodes.map(async (node, index) => {
          for (;;) {
            const answer = await this.#list(index, versions[index] ?? null, form, node);
            if (answer.status === 200) return performance.now() - startMs;
            if (answer.status !== BUSY) throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
            busy += 1;
            await sleep(RETRY_MS);
          }
        }),
      );
      return { ms, ...this.#each(before, AT_ONCE), refused: new Map(busy === 0 ? [] : [[BUSY, busy]]) };
    } finally {
      for (const node of nodes) node.close();
    }
  }

  async #times(
    count: number,
    ask: (index: number) => ReturnType<KubeApi["call"]>,
    before: (index: number) => Promise<void> = async () => {},
  ): Promise<Times> {
    const ms: number[] = [];
    const refused = new Map<number, number>();
    const processor = this.#processorMs();
    for (let index = 0; index < count; index += 1) {
      await before(index);
      const startMs = performance.now();
      const { status, body } = await ask(index);
      ms.push(performance.now() - startMs);
      if (status === TOO_NEW) refused.set(status, (refused.get(status) ?? 0) + 1);
      else if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
      else if (body.items !== undefined && body.items.length !== 1) throw new Error(`${body.items.length} allocations`);
    }
    return { ms, ...this.#each(processor, count), refused };
  }

  #list(index: number, version: string | null, form: keyof typeof FORMS = "whole", node = this.#node) {
    const query = new URLSearchParams({
      labelSelector: labelSelector(LABEL_CLAIM, `${NAMESPACE}/${this.#nameOf(index)}`),
      ...(version === null ? {} : { resourceVersion: version, resourceVersionMatch: "NotOlderThan" }),
    });
    return node.call("GET", `${ALLOCATIONS_PATH}?${query}`, undefined, { accept: FORMS[form] });
  }

  async #write(path: string): Promise<string> {
    const annotations = { "example.com/written": String(performance.now()) };
    return (await this.#bench.cluster.api.patch(path, { metadata: { annotations } })).metadata.resourceVersion;
  }

  async #versionOf(index: number): Promise<string> {
    return (await this.#node.get(this.#claimPath(index))).metadata.resourceVersion;
  }

  #claimPath(index: number): string {
    return `${namespacedPath(CLAIMS_PATH, NAMESPACE)}/${this.#nameOf(index)}`;
  }

  #nameOf(index: number): string {
    return this.#objects.nameOfClaim((index * STEP) % this.#objects.claims);
  }

  #processorMs(): Pick<Times, "apiServerMs" | "etcdMs"> {
    const { apiServer, etcd } = this.#bench.cluster.pids;
    return { apiServerMs: processorMsOf(apiServer), etcdMs: processorMsOf(etcd) };
  }

  #each(before: Pick<Times, "apiServerMs" | "etcdMs">, count: number): Pick<Times, "apiServerMs" | "etcdMs"> {
    const now = this.#processorMs();
    return {
      apiServerMs: (now.apiServerMs - before.apiServerMs) / count,
      etcdMs: (now.etcdMs - before.etcdMs) / count,
    };
  }
}

function alone(form: string, times: Times, cluster: string): Line[] {
  const against = `NotOlderThan the claim's version, of a cache that is newer; ${REQUESTS} one after the other; ${cluster}`;
  return [
    atMost(median(times.ms), 300, "ms", {
      what: `list of a claim's allocations by label, ${form}, median`,
      against,
      beside: sayRefused(times),
    }),
    atMost(quantile(times.ms, P99), 300, "ms", { what: "the same, p99", against }),
    processorLine(times, against),
  ];
}

function processorLine(times: Times, against: string): Line {
  return atMost((times.apiServerMs + times.etcdMs) / 1_000, 0.2, "s", {
    what: "processor time of API server and etcd for one",
    against,
    beside: `etcd ${number(times.etcdMs)} ms`,
  });
}

/**
 * A cache knows how new it is by the changes of its own resource, and by asking etcd if it can. The claim is another
 * resource: in a quiet cluster its version is newer than a cache knows itself to be that cannot ask.
 */
async function freshLines(lists: ClaimLists): Promise<Line[]> {
  const ofAllocation = await lists.after(WRITES, lists.writeAllocation);
  const ofClaim = await lists.after(CLAIM_WRITES, lists.writeClaim);
  return [
    atMost(quantile(ofAllocation.ms, P99), 300, "ms", {
      what: "at the version of an allocation written just before, p99",
      against: `${WRITES} writes; ${lists.against}`,
      beside: `median ${number(median(ofAllocation.ms))} ms, ${sayRefused(ofAllocation)}`,
    }),
    atMost(quantile(ofClaim.ms, P99), 300, "ms", {
      what: "at the version of a claim written just before, and no allocation since, p99",
      against: `${CLAIM_WRITES} writes; ${lists.against}`,
      beside: `median ${number(median(ofClaim.ms))} ms, ${sayRefused(ofClaim)}`,
    }),
  ];
}

async function comparedLines(lists: ClaimLists): Promise<Line[]> {
  const consistent = await lists.consistent();
  const byName = await lists.byName();
  return [
    told(sayTimes(consistent), {
      what: "the same list without a version",
      against: `once; ${lists.against}`,
    }),
    told(sayTimes(byName), { what: "GET of an allocation by its name", against: `${REQUESTS}; ${lists.against}` }),
  ];
}

async function togetherLine(lists: ClaimLists, form: keyof typeof FORMS): Promise<Line> {
  const times = await lists.together(form);
  return atMost(Math.max(...times.ms) / 1_000, 60, "s", {
    what: `${AT_ONCE} such lists at once, of ${form === "whole" ? "whole objects" : "metadata only"}, all answered`,
    against: `${AT_ONCE} connections, the client on the same cores; after a refusal again in ${RETRY_MS / 1_000} s; ${lists.against}`,
    beside: `${sayTimes(times)}, ${sayRefused(times)}`,
  });
}

function sayTimes({ ms, apiServerMs, etcdMs }: Times): string {
  const took = `median ${number(median(ms))} ms, p99 ${number(quantile(ms, P99))} ms`;
  return `${took}; API server ${number(apiServerMs)} ms and etcd ${number(etcdMs)} ms of a processor each`;
}

function sayRefused({ ms, refused }: Times): string {
  if (refused.size === 0) return "none refused";
  return [...refused].map(([status, count]) => `${number(count)} times ${status} for ${ms.length}`).join(", ");
}

function megabytes(pid: number | undefined): string {
  return `${number(memoryBytesOf(pid, "VmRSS") / 1e6)} MB`;
}

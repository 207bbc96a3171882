import { Random } from "../faults/random.ts";
import { TestCluster } from "../harness/cluster.ts";
import { KubePods } from "../harness/kube-pods.ts";
import { switchServers } from "../harness/server-switches.ts";
import { pause, until } from "../harness/wait.ts";
import { NAMESPACE } from "../harness/world/network.ts";
import { Faults } from "./faults.ts";
import { Gate } from "./gate.ts";
import { growthOf, JUDGED_MINUTES_MIN, judgeGrowth } from "./growth.ts";
import { type Latency, latenciesIn } from "./latency.ts";
import { Ledger } from "./ledger.ts";
import { PatientApi } from "./patient-api.ts";
import { Population } from "./population.ts";
import { Recorder } from "./recorder.ts";
import type { Report } from "./report.ts";
import { Runtime } from "./runtime.ts";
import { SoakController } from "./soak-controller.ts";
import { SoakNode } from "./soak-node.ts";
import { Tally } from "./tally.ts";
import { findings, lostOrLeaked, settled } from "./truth.ts";

export interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
  readonly nodes: number;
  /** How often each of two API servers behind a balancer is restarted in the end. */
  readonly switches: number;
}

/** Between two looks at the processes, ms; of a short run a part of its length. */
const LOOK_MS_MAX = 5_000;
const LOOK_PART = 1 / 60;
const TOLD_MS = 30_000;
/** Longer than a runtime takes for one more attempt. */
const REST_MS_MAX = 300_000;
/** How long a node may refuse an address after a switch between two API servers, ms. */
const REFUSAL_MS_MAX = 10_000;

/** A run: real API server, daemons, controllers and plugins; guests that come and go; faults; what it all took. */
export class Soak {
  readonly #options: SoakOptions;
  readonly #cluster: TestCluster;
  readonly #api: PatientApi;
  readonly #nodes: SoakNode[] = [];
  readonly #controllers: SoakController[] = [];
  readonly #ledger = new Ledger();
  readonly #tally = new Tally();
  readonly #gate = new Gate();

  private constructor(options: SoakOptions, cluster: TestCluster) {
    this.#options = options;
    this.#cluster = cluster;
    this.#api = new PatientApi(cluster.api);
  }

  static async run(options: SoakOptions): Promise<Report> {
    const soak = new Soak(options, await TestCluster.start());
    await soak.#begin();
    return soak.#run();
  }

  get #processes(): readonly (SoakNode | SoakController)[] {
    return [...this.#nodes, ...this.#controllers];
  }

  /** One controller and half of the nodes' daemons may be killed; the others live as long as the run. */
  async #begin(): Promise<void> {
    const { nodes } = this.#options;
    const admin = new KubePods(this.#api);
    await admin.createNamespace(NAMESPACE);
    for (const name of ["controller-0", "controller-1"])
      this.#controllers.push(await SoakController.start(this.#cluster, name, name === "controller-0"));
    for (let index = 0; index < nodes; index += 1) {
      await admin.createNode(`node-${index}`);
      this.#nodes.push(await SoakNode.start(this.#cluster, `node-${index}`, index >= nodes / 2));
    }
  }

  async #run(): Promise<Report> {
    const { seed, minutes } = this.#options;
    const lengthMs = minutes * 60_000;
    const targets = { cluster: this.#cluster, nodes: this.#nodes, controllers: this.#controllers };
    const faults = new Faults(targets, new Random(seed), this.#tally);
    const parts = { ledger: this.#ledger, tally: this.#tally, gate: this.#gate };
    const runtime = new Runtime(this.#nodes, parts);
    const nodes = this.#nodes.map(({ name }) => name);
    const population = await Population.start(this.#api, seed, { ...parts, runtime, nodes });
    const recorder = new Recorder(this.#processes);
    const startMs = performance.now();
    const isOver = () => performance.now() - startMs >= lengthMs;
    const looks = this.#look(recorder, runtime, isOver);
    await Promise.race([Promise.all([faults.run(isOver), looks]), population.gone]);
    this.#gate.end();
    await faults.heal();
    console.log("the faults are over; everything settles");
    if (await this.#judgeRest(runtime, population)) {
      this.#gate.release();
      await population.gone;
      await this.#judge("what is left", () => this.#lostOrLeaked());
      await this.#judge("the last check", () => this.#findings());
    }
    const latencies = latenciesIn(await this.#metricsOfImmortals());
    await this.#end();
    await this.#switch();
    return this.#report(recorder, lengthMs, latencies);
  }

  async #look(recorder: Recorder, runtime: Runtime, isOver: () => boolean): Promise<void> {
    const lookMs = Math.min(LOOK_MS_MAX, this.#options.minutes * 60_000 * LOOK_PART);
    for (let toldMs = this.#tally.nowMs; !isOver(); ) {
      await pause(lookMs);
      await recorder.look();
      this.#countRequests();
      if (this.#tally.nowMs - toldMs < TOLD_MS) continue;
      toldMs = this.#tally.nowMs;
      const served = this.#tally.verbs.map(({ verb, count }) => `${count} ${verb}`).join(", ");
      console.log(
        `${Math.round(toldMs / 1_000)} s: ${this.#ledger.living.length} interfaces live, ` +
          `${runtime.waiting.size} wait; ${served}; ${this.#tally.struck.length} faults`,
      );
    }
  }

  #countRequests(): void {
    for (const { proxy } of this.#processes)
      for (const { method, path } of proxy.log.splice(0)) this.#tally.request(method, path);
  }

  /** With every guest at rest: what was answered is there, nothing else is, nobody waits. Whether they rest. */
  async #judgeRest(runtime: Runtime, population: Population): Promise<boolean> {
    await this.#judge("readiness", async () => {
      const ready = await Promise.all(this.#processes.map((one) => one.isReady()));
      return this.#processes.filter((_, at) => !ready[at]).map(({ name }) => `${name} is not ready`);
    });
    const isParked = () => this.#gate.parked + population.goneCount >= population.size;
    await Promise.race([until(isParked, "", REST_MS_MAX).catch(() => {}), population.gone]);
    if (!isParked()) {
      const waiting = [...runtime.waiting].map(([what, refusal]) => `${what}: ${refusal}`);
      this.#ledger.violate(`guests found no rest; waiting for an address: ${waiting.join("; ") || "nobody"}`);
      return false;
    }
    await this.#judge("what was answered", () => this.#lostOrLeaked());
    await this.#judge("check", () => this.#findings());
    for (const wrong of await runtime.inKernel()) this.#ledger.violate(wrong);
    const { living, claims } = this.#ledger;
    console.log(`at rest: ${living.length} interfaces, ${claims.length} claims with addresses`);
    return true;
  }

  #lostOrLeaked(): Promise<string[]> {
    return lostOrLeaked(this.#api, this.#ledger);
  }

  #findings(): Promise<string[]> {
    return findings(this.#nodes, this.#cluster.kubeconfig("admin"));
  }

  async #judge(what: string, look: () => Promise<readonly string[]>): Promise<void> {
    const startMs = this.#tally.nowMs;
    for (const wrong of await settled(look)) this.#ledger.violate(wrong);
    console.log(`${what}: settled after ${Math.round((this.#tally.nowMs - startMs) / 1_000)} s`);
  }

  /** Every process ends by SIGTERM, without complaint. */
  async #end(): Promise<void> {
    const codes = await Promise.all(this.#processes.map((one) => one.end()));
    for (const [at, { name }] of this.#processes.entries())
      if (codes[at] !== 0) this.#ledger.violate(`${name} ended with exit code ${codes[at]}`);
    this.#countRequests();
  }

  /**
   * With the other nodes gone: two API servers behind a balancer, restarted in turn under the ADDs of one more node.
   */
  async #switch(): Promise<void> {
    const { switches } = this.#options;
    console.log(`two API servers behind a balancer, each restarted ${switches} times`);
    const { adds, refused, longestRefusalMs, worst, untrue } = await switchServers(this.#cluster, switches);
    console.log(`${adds} ADDs, ${refused} refused; the longest refusal took ${longestRefusalMs} ms ${worst}`);
    if (longestRefusalMs > REFUSAL_MS_MAX)
      this.#ledger.violate(`an ADD was refused for ${longestRefusalMs} ms after a switch: ${worst}`);
    if (untrue > 0) this.#ledger.violate(`${untrue} times a node was ready and refused`);
  }

  #metricsOfImmortals(): Promise<string[]> {
    return Promise.all(this.#nodes.filter(({ isMortal }) => !isMortal).map((node) => node.metrics()));
  }

  #report(recorder: Recorder, lengthMs: number, latencies: readonly Latency[]): Report {
    const { seed, minutes } = this.#options;
    const { violations } = this.#ledger;
    const processes = this.#processes.map(({ name, isMortal, restarts, log }) => {
      const samples = recorder.samples.get(name) ?? [];
      return { name, isJudged: !isMortal, restarts, ...growthOf(samples, lengthMs), samples, log };
    });
    if (minutes >= JUDGED_MINUTES_MIN) {
      const judged = processes.filter(({ isJudged }) => isJudged);
      for (const wrong of judged.flatMap((one) => judgeGrowth(one.name, one))) this.#ledger.violate(wrong);
    } else console.log(`growth is not judged: the run is shorter than ${JUDGED_MINUTES_MIN} minutes`);
    const { faults, struck, requests, refusals, verbs } = this.#tally;
    return {
      ...{ seed, minutes, violations, processes, struck, verbs, latencies },
      verdict: violations.length === 0 ? "clean" : "FAILED",
      faults: Object.fromEntries(faults),
      requests: Object.fromEntries(requests),
      refusals: Object.fromEntries(refusals),
    };
  }
}

/** SIGKILL before each write, sync and removal of a start and of an end: the next start has everything. */
import { expect, test } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import { FaultyDisk } from "./faulty-disk.ts";
import { ended, readyOrEnded, StandaloneNode } from "./standalone-node.ts";
import { attachedTo, expectSound } from "./truth.ts";
import { postCni } from "./wire.ts";

const CONFIG = network("blue", { subnets: "10.10.0.0/24" });
/** A start has some forty, an end some twenty; one that has more of them than this hangs. */
const CALLS_MAX = 100;
const LIMIT_MS = 240_000;

/** Goes through the calls, the first one first, until the daemon has passed them all. */
class Killing {
  readonly #node = new StandaloneNode({ inMemory: true });
  readonly #disk = new FaultyDisk(this.#node, { below: this.#node.directory });
  readonly #bodies = new Map<string, string>();
  #calls = 0;

  /** A daemon that has what all before it have answered, and more commits than a start makes by itself. */
  async daemon(): Promise<TestDaemon> {
    const daemon = await this.start();
    for (const [id, body] of this.#bodies)
      expect(await this.#add(daemon, id), `killed before ${this.#calls}`).toBe(body);
    for (const name of ["a", "b", "c"]) {
      const id = `${this.#calls}-${name}`;
      this.#bodies.set(id, await this.#add(daemon, id));
    }
    expect(await attachedTo(daemon, "blue")).toEqual([...this.#bodies.keys()].sort());
    await expectSound(daemon);
    return daemon;
  }

  start({ wait = true } = {}): Promise<TestDaemon> {
    return this.#node.daemon({ env: this.#disk.env, wait });
  }

  arm(): void {
    this.#calls += 1;
    expect(this.#calls, "writes, syncs and removals").toBeLessThan(CALLS_MAX);
    this.#disk.fail({ call: "kill", every: this.#calls });
  }

  disarm(): void {
    this.#disk.mend();
  }

  get said(): string {
    return `${this.#calls - 1} writes, syncs and removals`;
  }

  async #add(daemon: TestDaemon, id: string): Promise<string> {
    const answer = await postCni(daemon, "ADD", id, { config: CONFIG });
    expect(answer.status, answer.body).toBe(200);
    return answer.body;
  }
}

test.each(["SIGTERM", "SIGKILL"] as const)(
  "after %s a start that is killed before any of its writes leaves all to the next one",
  async (signal) => {
    const killing = new Killing();
    for (let hasSurvived = false; !hasSurvived; ) {
      const daemon = await killing.daemon();
      await daemon.end(signal);
      killing.arm();
      const killed = await killing.start({ wait: false });
      hasSurvived = (await readyOrEnded(killed)) === "ready";
      killing.disarm();
      await killed.end("SIGKILL");
    }
    console.log(`a start after ${signal} has ${killing.said}`);
  },
  LIMIT_MS,
);

test(
  "an end that is killed before any of its writes leaves all to the next start",
  async () => {
    const killing = new Killing();
    for (let code: number | null = null; code === null; ) {
      const daemon = await killing.daemon();
      killing.arm();
      daemon.process.kill("SIGTERM");
      code = (await ended(daemon)).code;
      killing.disarm();
      expect([0, null], daemon.log).toContain(code);
    }
    console.log(`an end has ${killing.said}`);
  },
  LIMIT_MS,
);

/**
 * A container runtime with many containers, which remembers what it was told: an ADD that was answered holds, a DEL
 * that was answered holds, and of what was not answered either may be true until it is asked again.
 */
import { expect } from "vitest";
import { network, type TestDaemon } from "../harness/daemon.ts";
import type { Random } from "./random.ts";
import { allAllocations, bare, ipsIn } from "./truth.ts";
import { claimManifest, podArgs, postCni, type WireOptions } from "./wire.ts";

/** Little more room than is wanted, and no cool-downs: a released address is soon another's. */
const PLAIN = network("plain", { subnets: "10.20.0.0/26", cooldownSeconds: 0 });
const DUAL = network("dual", { subnets: "10.30.0.0/24,fd30::/64", cooldownSeconds: 1 });
const VMS = network("vms", { subnets: "10.40.0.0/24,fd40::/120" }, { allowPersistentIPs: true });
const CONTAINERS_PER_KIND = 40;
/** Share of the calls that go through the real plugin binary, whose DELs reach the spool when the daemon dies. */
const BINARY_SHARE = 0.08;
const WORKERS = 16;

type Known = "absent" | "present" | "unsure";

interface Container {
  readonly id: string;
  readonly network: string;
  readonly options: WireOptions & { readonly config: object };
  readonly throughBinary: boolean;
  readonly claim: string | null;
  known: Known;
  /** The answer to the ADD that made it present, and `ips` in it. */
  body: string;
  busy: boolean;
}

export class Workload {
  readonly #random: Random;
  readonly #containers: Container[];
  readonly #claimIps = new Map<string, string>();
  answered = 0;
  unanswered = 0;
  #isGone = false;

  constructor(random: Random) {
    this.#random = random;
    this.#containers = Array.from({ length: CONTAINERS_PER_KIND }, (_, index) => [
      this.#container(`plain-${index}`, { config: PLAIN }),
      this.#container(`pod-${index}`, { config: DUAL, args: podArgs(`pod-${index}`), ifname: "net1" }),
      this.#container(`vm-${index}`, { config: VMS, args: podArgs(`vm-${index}`, `vm-${index}`) }, `vm-${index}`),
    ]).flat();
  }

  #container(id: string, options: Container["options"], claim: string | null = null): Container {
    const throughBinary = this.#random.chance(BINARY_SHARE);
    const { name } = options.config as { name: string };
    return { id, network: name, options, throughBinary, claim, known: "absent", body: "", busy: false };
  }

  async prepare(daemon: TestDaemon): Promise<void> {
    const objects = this.#containers.flatMap(({ claim }) => (claim === null ? [] : [claimManifest(claim, "vms")]));
    const applied = await daemon.post("/v1/apply", { objects });
    expect(applied.body).not.toContain("error");
  }

  /** Runs ADDs and DELs until the daemon ends or so many calls were made. Returns whether it ended. */
  async run(daemon: TestDaemon, calls: number): Promise<boolean> {
    let left = calls;
    this.#isGone = false;
    const worker = async () => {
      while (left > 0 && !this.#isGone) {
        left -= 1;
        const container = this.#random.pick(this.#containers);
        if (container.busy) continue;
        container.busy = true;
        await this.#step(daemon, container);
        container.busy = false;
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, worker));
    return this.#isGone;
  }

  async #step(daemon: TestDaemon, container: Container): Promise<void> {
    const { known } = container;
    // A repeat now and then; otherwise what a runtime does next.
    if (known === "absent" || (known === "unsure" && this.#random.chance(0.5)) || this.#random.chance(0.2)) {
      await this.#add(daemon, container);
    } else {
      await this.#del(daemon, container);
    }
  }

  async #add(daemon: TestDaemon, container: Container): Promise<void> {
    const before = { known: container.known, body: container.body };
    if (before.known === "absent") container.known = "unsure";
    const body = await this.#call(daemon, "ADD", container);
    if (body === null) return;
    if (before.known === "present") expect(ipsIn(body), `repeated ADD of ${container.id}`).toBe(ipsIn(before.body));
    container.known = "present";
    container.body = body;
    if (container.claim === null) return;
    const published = this.#claimIps.get(container.claim) ?? ipsIn(body);
    expect(ipsIn(body), `claim ${container.claim}`).toBe(published);
    this.#claimIps.set(container.claim, published);
  }

  async #del(daemon: TestDaemon, container: Container): Promise<void> {
    container.known = "unsure";
    if ((await this.#call(daemon, "DEL", container)) !== null) container.known = "absent";
  }

  /** The body of a success; null when there was no answer, or "try again". */
  async #call(daemon: TestDaemon, verb: "ADD" | "DEL", container: Container): Promise<string | null> {
    const { id, options } = container;
    const result = container.throughBinary
      ? await daemon.cni(verb, id, options).then(({ code, stdout }) => ({ ok: code === 0, body: stdout }))
      : await postCni(daemon, verb, id, options).then(
          ({ status, body }) => ({ ok: status === 200, body }),
          () => {
            this.#isGone = true;
            return null;
          },
        );
    if (result?.ok) this.answered += 1;
    else this.unanswered += 1;
    if (result && !result.ok) expect(result.body, `${verb} of ${id}`).toMatch(/"code": ?11\b/);
    return result?.ok ? result.body : null;
  }

  /** What was answered holds, and nobody has an address of somebody else. */
  async verify(daemon: TestDaemon): Promise<void> {
    const users = new Map<string, { addresses: Set<string>; network: string }>();
    for (const { network: name, address, attachments } of await allAllocations(daemon)) {
      for (const { containerID } of attachments) {
        const user = users.get(containerID) ?? { addresses: new Set(), network: name };
        user.addresses.add(bare(address));
        users.set(containerID, user);
      }
    }
    const owners = new Map<string, string>();
    for (const { id, known, body, network: name } of this.#containers) {
      if (known === "absent") expect(users.has(id), `${id} after its answered DEL`).toBe(false);
      if (known !== "present") continue;
      const answered = (JSON.parse(ipsIn(body)) as { address: string }[]).map((ip) => bare(ip.address));
      expect([...(users.get(id)?.addresses ?? [])].sort(), `${id} after its answered ADD`).toEqual(answered.sort());
      for (const address of answered) {
        expect(owners.get(`${name} ${address}`) ?? id, `owner of ${address}`).toBe(id);
        owners.set(`${name} ${address}`, id);
      }
    }
  }

  /** Asks everything once more: what was answered is answered in the same bytes, what was not can be done now. */
  async repeatAll(daemon: TestDaemon): Promise<void> {
    for (const container of this.#containers) {
      if (container.known === "absent") continue;
      const { known, body } = container;
      await this.#add(daemon, container);
      expect(container.known, `repeat of ${container.id}`).toBe("present");
      if (known === "present") expect(container.body).toBe(body);
    }
  }

  async deleteAll(daemon: TestDaemon): Promise<void> {
    for (const container of this.#containers) await this.#del(daemon, container);
    expect(this.#containers.filter(({ known }) => known !== "absent")).toEqual([]);
  }
}

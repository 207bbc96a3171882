/** What the witness may end of attachments of which nobody has seen a network namespace. */
import { expect, test } from "vitest";
import type { Attachment } from "../../allocations/records.ts";
import { Witness } from "../../daemon/witness.ts";
import { makeLog } from "../../platform/log.ts";
import { Namespaces } from "../../platform/namespaces.ts";
import type { PodState } from "../../store/cluster/parts/claim-access.ts";
import { VirtualTime } from "../harness/virtual-time.ts";

const GRACE_S = 20;

const UID = "7d9f3a52-0000-4000-8000-000000000001";
const RECOVERED = { netns: { path: "", id: "", witnessed: false }, stamp: { bootId: "boot-1", us: 0 } };
const UNSEEN = {
  netns: { path: "/run/netns/c1", id: "", witnessed: false },
  stamp: { bootId: "boot-1", us: 5 },
};

/** One attachment, at which the witness looks every five seconds. */
class Watched {
  readonly #clock;
  readonly #time = new VirtualTime();
  readonly #held: Attachment[];
  readonly #witness: Witness;
  podState: PodState = "living";
  isSettled = true;

  constructor(parts: object, { isKubernetes = true, idThere = "" } = {}) {
    const pod = { namespace: "shop", name: "pod-1", uid: UID };
    const one = { id: 1, network: "blue", containerId: "c1", interface: "net1", pod, ...parts };
    this.#held = [one as unknown as Attachment];
    this.#clock = this.#time.clock();
    this.#witness = new Witness({
      store: {
        attachmentsAfter: (after) => this.#held.filter(({ id }) => id > after),
        endAttachment: async () => this.#held.pop() !== undefined,
      },
      clock: this.#clock,
      log: makeLog("silent", this.#clock),
      machine: { bootId: "boot-1" },
      namespaces: new Namespaces({ namespaceIdAt: () => idThere, namespacesInUse: () => new Set() }, this.#clock),
      graceSeconds: GRACE_S,
      podState: isKubernetes ? async () => this.podState : null,
      isSettled: () => this.isSettled,
    });
  }

  async isKeptFor(seconds: number): Promise<boolean> {
    for (let passed = 0; passed < seconds; passed += 5) {
      await this.#time.run(this.#witness.runPass());
      await this.#time.run(new Promise<void>((resolve) => this.#clock.timer(5_000, resolve)));
    }
    return this.#held.length > 0;
  }
}

test("an attachment recovered after its journal was lost is ended a whole grace after its pod, however long it was known", async () => {
  const watched = new Watched(RECOVERED);
  expect(await watched.isKeptFor(5 * GRACE_S)).toBe(true);
  watched.podState = "gone";
  expect(await watched.isKeptFor(GRACE_S)).toBe(true);
  expect(await watched.isKeptFor(10)).toBe(false);
});

test("an attachment of a static pod that was recovered is not ended because the pod has no object", async () => {
  const watched = new Watched(RECOVERED);
  watched.podState = "unseen";
  expect(await watched.isKeptFor(5 * GRACE_S)).toBe(true);
});

test("an attachment recovered after its journal was lost is ended at once when its pod says that all containers have ended", async () => {
  const watched = new Watched(RECOVERED);
  expect(await watched.isKeptFor(GRACE_S)).toBe(true);
  watched.podState = "completed";
  expect(await watched.isKeptFor(5)).toBe(false);
});

test.each([
  { what: "whose namespace not even the plugin binary saw", parts: UNSEEN, options: {} },
  { what: "outside of Kubernetes", parts: UNSEEN, options: { isKubernetes: false } },
  { what: "at whose path something is now", parts: UNSEEN, options: { idThere: "4:7" } },
  {
    what: "whose namespace only the plugin binary saw",
    parts: { ...UNSEEN, netns: { ...UNSEEN.netns, id: "4:7" } },
    options: {},
  },
])("an attachment $what is not ended without a DEL", async ({ parts, options }) => {
  const watched = new Watched(parts, options);
  watched.podState = "gone";
  expect(await watched.isKeptFor(5 * GRACE_S)).toBe(true);
});

test("an attachment of another boot is ended a whole grace after the node has settled, and not before", async () => {
  const watched = new Watched({ ...UNSEEN, stamp: { bootId: "boot-0", us: 5 } });
  watched.podState = "gone";
  watched.isSettled = false;
  expect(await watched.isKeptFor(5 * GRACE_S)).toBe(true);
  watched.isSettled = true;
  expect(await watched.isKeptFor(GRACE_S)).toBe(true);
  expect(await watched.isKeptFor(10)).toBe(false);
});

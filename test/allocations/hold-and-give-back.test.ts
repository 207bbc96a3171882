import { describe, expect, test } from "vitest";
import { AllocationClient } from "../../allocations/allocation-client.ts";
import {
  cooled,
  type Holder,
  newAllocation,
  retained,
  takenOver,
  withAttachment,
} from "../../allocations/allocation-object.ts";
import { type Change, giveBack } from "../../allocations/give-back.ts";
import { ATTEMPTS_MAX, type HoldRequest, hold } from "../../allocations/hold.ts";
import { parseInterfaceAddress } from "../../ipam/space/cidr.ts";
import { allocationName, labelValue } from "../../kube/object-names.ts";
import {
  ALLOCATIONS_PATH,
  type AllocationOwner,
  attachmentKey,
  attachmentsIn,
  BOUND_FINALIZER,
  type IPAllocation,
  LABEL_CLAIM,
  LABEL_STATE,
  objectPath,
} from "../../kube/objects.ts";
import { isoTime } from "../../platform/time.ts";
import { KubeInMemory } from "../harness/kube-in-memory.ts";
import { ManualClock } from "../harness/manual-clock.ts";

const ONE = parseInterfaceAddress("10.0.0.5/24");
const NAME = allocationName("blue", ONE.address);
const PATH = objectPath(ALLOCATIONS_PATH, NAME);
const TIME = "2026-01-01T00:00:00.000Z";

/** One IPAllocation on a server, which several writers may change at once. */
class SharedAllocation {
  readonly clock = new ManualClock();
  readonly api = new KubeInMemory(this.clock);
  readonly client = new AllocationClient(this.api, "del");
  /** Methods of what the writer under test has sent. */
  readonly sent: string[] = [];

  constructor() {
    this.api.before = ({ method }) => {
      this.sent.push(method);
    };
  }

  put(object: object): IPAllocation {
    return this.api.put(ALLOCATIONS_PATH, { ...(this.object ?? {}), ...object });
  }

  get object(): IPAllocation | undefined {
    return this.api.at(PATH);
  }

  get owner(): string | undefined {
    return this.object?.spec.owner.uid;
  }

  get attached(): string[] {
    return this.object === undefined ? [] : attachmentsIn(this.object).map(({ containerID }) => containerID);
  }

  get deadlineMs(): number {
    return this.clock.nowMs + 10_000;
  }

  hold<W = never>(holder: Holder, given: Partial<HoldRequest<W>> = {}) {
    const { client, deadlineMs } = this;
    return hold<W>(client, { network: "blue", one: ONE, holder, deadlineMs, ...given });
  }

  giveBack<W = never>(change: Change<W> | ((object: IPAllocation) => Change<W>), meant = {}) {
    const judge = typeof change === "function" ? change : () => change;
    return giveBack<W>(this.client, { name: NAME, ...meant }, ({ object }) => judge(object), this.deadlineMs);
  }

  /** Somebody else writes at the moment before a write of the writer under test, `times` times. */
  interfere(times: number, change: (object: IPAllocation | undefined, time: number) => void): void {
    let left = times;
    this.api.before = ({ method }) => {
      this.sent.push(method);
      if (method === "GET" || left === 0) return;
      left -= 1;
      change(this.object, times - left);
    };
  }
}

function owned(name: string, kind: AllocationOwner["kind"] = "Pod"): AllocationOwner {
  return { kind, namespace: "shop", name, uid: `${name}-uid`, interface: "net1" };
}

/** A holder with a container, or without one. */
function holder(name: string, container: string | null = `${name}-1`): Holder {
  const attachment =
    container === null ? null : { containerID: container, interface: "net1", node: "node-a", since: TIME };
  return { owner: owned(name), attachment };
}

function bound(one: Holder): object {
  return newAllocation("blue", ONE, one, TIME);
}

function cooling(one: Holder): object {
  return cooled(bound(one) as IPAllocation, TIME);
}

const VM: AllocationOwner = { ...owned("vm", "IPAMClaim"), interface: "" };
const again: Holder = { ...holder("vm"), owner: { ...VM, uid: "vm-2" } };
const UNTIL = "2026-01-02T00:00:00.000Z";

function kept(): object {
  return retained(bound({ owner: VM, attachment: null }) as IPAllocation, TIME, UNTIL);
}

describe("a retained address", () => {
  test("keeps its finalizer, and says by its label whose it was", () => {
    expect(kept()).toMatchObject({
      metadata: {
        finalizers: [BOUND_FINALIZER],
        labels: { [LABEL_CLAIM]: labelValue("shop/vm"), [LABEL_STATE]: "Retained" },
      },
      status: { state: "Retained", since: TIME, retainedUntil: UNTIL, attachments: {}, node: "" },
    });
  });

  test("goes to a claim of the name that had it", async () => {
    const allocation = new SharedAllocation();
    allocation.put(kept());
    expect(await allocation.hold(again)).toMatchObject({ kind: "held", was: "cooling" });
    expect(allocation.object).toMatchObject({ spec: { owner: again.owner }, status: { state: "Bound" } });
    expect(allocation.object?.status).not.toHaveProperty("retainedUntil");
  });

  test.each([
    ["a pod", holder("web")],
    ["a claim of another name", { ...again, owner: { ...again.owner, name: "vm2" } }],
    ["a claim of the name in another namespace", { ...again, owner: { ...again.owner, namespace: "bank" } }],
    ["a pod of the claim's name", holder("vm")],
  ])("does not go to %s", async (_who, other) => {
    const allocation = new SharedAllocation();
    const before = allocation.put(kept());
    expect(await allocation.hold(other)).toEqual({ kind: "taken", object: before });
    expect(allocation.sent).toEqual(["GET"]);
  });

  test("begins with a claim's end and lasts for so long, by the server's clock", async () => {
    const allocation = new SharedAllocation();
    allocation.put(bound({ owner: VM, attachment: null }));
    expect(await allocation.giveBack({ kind: "retain", seconds: 600 })).toMatchObject({ kind: "done" });
    const { since = "", retainedUntil = "" } = allocation.object?.status ?? {};
    expect(Date.parse(retainedUntil) - Date.parse(since)).toBe(600_000);
  });

  test("of a former claim leaves no label behind with a pod that has the address later", async () => {
    const allocation = new SharedAllocation();
    allocation.put(cooled(kept() as IPAllocation, TIME));
    await allocation.hold(holder("web"));
    expect(allocation.object?.metadata.labels).not.toHaveProperty(LABEL_CLAIM);
  });
});

describe("hold takes an address when", () => {
  test.each([
    ["no object exists, as the caller believed", undefined, { believed: null }, ["POST"], "absent"],
    ["no object exists", undefined, {}, ["GET", "POST"], "absent"],
    ["it is Cooling after another owner", cooling(holder("db")), {}, ["GET", "PUT"], "cooling"],
    [
      "it is Cooling, which the caller did not know",
      cooling(holder("db")),
      { believed: null },
      ["POST", "GET", "PUT"],
      "cooling",
    ],
    ["its owner has it without a container", bound(holder("web", null)), {}, ["GET", "PUT"], "bound"],
    [
      "another owner has it whom the holder may pass over",
      bound(holder("db")),
      { relationOf: () => "passes-over" },
      ["GET", "PUT"],
      "bound",
    ],
  ] as const)("%s", async (_what, before, given, sent, was) => {
    const allocation = new SharedAllocation();
    if (before !== undefined) allocation.put(before);
    expect(await allocation.hold(holder("web"), given)).toMatchObject({
      kind: "held",
      was,
      object: allocation.object,
    });
    expect(allocation.sent).toEqual(sent);
    expect(allocation.object).toMatchObject({
      metadata: { finalizers: [BOUND_FINALIZER] },
      spec: { owner: owned("web") },
      status: { state: "Bound", node: "node-a" },
    });
    expect(allocation.attached).toEqual(["web-1"]);
  });

  test("its owner has other containers: they stay, except those that it replaces", async () => {
    const allocation = new SharedAllocation();
    const before = bound(holder("web", "old")) as IPAllocation;
    const sibling = { containerID: "sibling", interface: "net1", node: "node-b", since: TIME };
    allocation.put(withAttachment(before, sibling));
    await allocation.hold(holder("web"), { replaced: () => [attachmentKey("old", "net1")] });
    expect(allocation.attached.toSorted()).toEqual(["sibling", "web-1"]);
    expect(allocation.object?.status?.node).toBe("node-a");
  });
});

describe("hold takes no address when", () => {
  test("another owner has the address, whatever the caller believed", async () => {
    for (const given of [{}, { believed: null }]) {
      const allocation = new SharedAllocation();
      const before = allocation.put(bound(holder("db")));
      expect(await allocation.hold(holder("web"), given)).toMatchObject({ kind: "taken", object: before });
      expect(allocation.api.writes).toEqual([]);
      expect(allocation.owner).toBe("db-uid");
    }
  });

  test("the holder has the address already, and attaches nothing", async () => {
    const allocation = new SharedAllocation();
    allocation.put(bound(holder("web")));
    expect(await allocation.hold(holder("web", null))).toMatchObject({ kind: "own" });
    expect(allocation.sent).toEqual(["GET"]);
  });

  test("its caller refuses, by an object that was read or by its absence", async () => {
    const allocation = new SharedAllocation();
    const whyNot = (reading: unknown) => (reading === null ? "absent" : "there");
    expect(await allocation.hold(holder("web"), { whyNot })).toEqual({ kind: "left", why: "absent" });
    allocation.put(cooling(holder("db")));
    expect(await allocation.hold(holder("web"), { whyNot: async (one) => whyNot(one) })).toEqual({
      kind: "left",
      why: "there",
    });
    expect(allocation.api.writes).toEqual([]);
  });

  test.each([
    ["created", undefined],
    ["took over", cooling(holder("cache"))],
  ])("another owner %s it at the moment of the write", async (_what, before) => {
    const allocation = new SharedAllocation();
    if (before !== undefined) allocation.put(before);
    allocation.interfere(1, (object) =>
      allocation.put(object === undefined ? bound(holder("db")) : takenOver(object, ONE, holder("db"), TIME)),
    );
    expect(await allocation.hold(holder("web"))).toMatchObject({ kind: "taken" });
    expect(allocation.owner).toBe("db-uid");
    expect(allocation.api.writes).toEqual([]);
  });

  test("the object that its caller passed is outdated, until it has read the current one", async () => {
    const allocation = new SharedAllocation();
    const old = allocation.put(cooling(holder("db")));
    allocation.put({ ...old, status: { ...old.status, since: "2026-01-01T00:00:01.000Z" } });
    const believed = { object: old, serverMs: null };
    expect(await allocation.hold(holder("web"), { believed })).toMatchObject({ kind: "held" });
    expect(allocation.sent).toEqual(["PUT", "GET", "PUT"]);
  });

  test("others write the object again and again", async () => {
    const allocation = new SharedAllocation();
    allocation.put(cooling(holder("db")));
    allocation.interfere(ATTEMPTS_MAX, (object, time) =>
      allocation.put({ ...object, status: { ...object?.status, since: isoTime(time) } }),
    );
    expect(await allocation.hold(holder("web"))).toEqual({ kind: "changed" });
    expect(allocation.sent.filter((method) => method === "PUT")).toHaveLength(ATTEMPTS_MAX);
    expect(allocation.owner).toBe("db-uid");
  });
});

describe("giveBack", () => {
  test("sets Cooling with the server's time, removes attachments, and keeps other finalizers", async () => {
    const allocation = new SharedAllocation();
    const before = bound(holder("web")) as IPAllocation;
    allocation.put({
      ...before,
      metadata: { ...before.metadata, finalizers: [BOUND_FINALIZER, "a.test/b"] },
    });
    const send = allocation.api.send.bind(allocation.api);
    allocation.api.send = async (request) => ({ ...(await send(request)), serverMs: 5_000 });
    expect(await allocation.giveBack({ kind: "cool" })).toEqual({ kind: "done", object: allocation.object });
    expect(allocation.sent).toEqual(["GET", "PUT"]);
    expect(allocation.object).toMatchObject({
      metadata: { finalizers: ["a.test/b"] },
      spec: { owner: owned("web") },
      status: { state: "Cooling", since: isoTime(5_000), attachments: {}, node: "" },
    });
  });

  test("cools the address from the given time, or from now where the server sends none", async () => {
    const allocation = new SharedAllocation();
    allocation.put(bound(holder("web")));
    await allocation.giveBack({ kind: "cool" });
    expect(allocation.object?.status?.since).toBe(isoTime(allocation.clock.wallMs()));
    await allocation.giveBack({ kind: "cool", since: isoTime(0) });
    expect(allocation.object?.status?.since).toBe(isoTime(0));
  });

  test("removes one container of several, and the node becomes that of the newest one left", async () => {
    const allocation = new SharedAllocation();
    const later = {
      containerID: "later",
      interface: "net1",
      node: "node-b",
      since: "2026-01-01T00:00:01.000Z",
    };
    allocation.put(withAttachment(bound(holder("web")) as IPAllocation, later));
    const keys = [attachmentKey("web-1", "net1")];
    expect(await allocation.giveBack({ kind: "prune", keys })).toMatchObject({ kind: "done" });
    expect(allocation.attached).toEqual(["later"]);
    expect(allocation.object?.status).toMatchObject({ state: "Bound", node: "node-b" });
  });

  test("records the node of a pod", async () => {
    const allocation = new SharedAllocation();
    allocation.put(bound(holder("web", null)));
    await allocation.giveBack({ kind: "record", node: "node-c" });
    expect(allocation.object?.status).toMatchObject({ state: "Bound", node: "node-c" });
  });

  test("deletes an object that is Cooling, unless another owner has it by now", async () => {
    const allocation = new SharedAllocation();
    allocation.put(cooling(holder("web")));
    allocation.interfere(1, (object) => allocation.put(takenOver(object as IPAllocation, ONE, holder("db"), TIME)));
    const drop = (object: IPAllocation): Change<"used"> =>
      object.status?.state === "Cooling" ? { kind: "delete" } : { kind: "leave", why: "used" };
    expect(await allocation.giveBack(drop)).toEqual({ kind: "left", why: "used" });
    expect(allocation.owner).toBe("db-uid");
    allocation.put(cooled(allocation.object as IPAllocation, TIME));
    expect(await allocation.giveBack(drop)).toMatchObject({ kind: "done" });
    expect(allocation.object).toBeUndefined();
  });
});

describe("giveBack changes nothing when", () => {
  test("there is no object", async () => {
    const allocation = new SharedAllocation();
    expect(await allocation.giveBack({ kind: "cool" })).toEqual({ kind: "absent" });
  });

  test.each([
    ["the object is another owner's", { owner: owned("db") }],
    ["the object is of another interface", { owner: { ...owned("web"), interface: "net2" } }],
    ["the object was recreated", { uid: "another" }],
  ])("%s, and does not ask for a verdict", async (_what, meant) => {
    const allocation = new SharedAllocation();
    const before = allocation.put(bound(holder("web")));
    const judge = () => {
      throw new Error("asked");
    };
    expect(await allocation.giveBack(judge, meant)).toEqual({ kind: "other", object: before });
    expect(allocation.api.writes).toEqual([]);
  });

  test("a container was attached after the verdict, which is asked for again", async () => {
    const allocation = new SharedAllocation();
    allocation.put(bound(holder("web", null)));
    const attachment = { containerID: "new", interface: "net1", node: "node-a", since: TIME };
    allocation.interfere(1, (object) => allocation.put(withAttachment(object as IPAllocation, attachment)));
    const judge = ({ status }: IPAllocation): Change<"used"> =>
      Object.keys(status?.attachments ?? {}).length === 0 ? { kind: "cool" } : { kind: "leave", why: "used" };
    expect(await allocation.giveBack(judge, { owner: owned("web") })).toEqual({ kind: "left", why: "used" });
    expect(allocation.attached).toEqual(["new"]);
  });

  test("the address has become another owner's since the verdict", async () => {
    const allocation = new SharedAllocation();
    allocation.put(cooling(holder("web")));
    allocation.interfere(1, (object) => allocation.put(takenOver(object as IPAllocation, ONE, holder("db"), TIME)));
    const meant = { owner: owned("web") };
    expect(await allocation.giveBack({ kind: "cool" }, meant)).toMatchObject({ kind: "other" });
    expect(allocation.object?.status?.state).toBe("Bound");
  });

  test("others write the object again and again", async () => {
    const allocation = new SharedAllocation();
    allocation.put(bound(holder("web")));
    allocation.interfere(ATTEMPTS_MAX, (object, time) =>
      allocation.put({ ...object, status: { ...object?.status, node: `node-${time}` } }),
    );
    expect(await allocation.giveBack({ kind: "cool" })).toEqual({ kind: "changed" });
    expect(allocation.object?.status?.state).toBe("Bound");
  });
});

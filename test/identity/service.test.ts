/**
 * What the service does while something changes under it, or is wrong: its parts are real but for who knows the VMs.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { LocalVms } from "../../identity/allocation-source.ts";
import type { IdentityQuestion } from "../../identity/query.ts";
import { type IdentityParts, IdentityService } from "../../identity/service.ts";
import { StandaloneIdentities } from "../../identity/sources/standalone.ts";
import type { IdentityVm } from "../../identity/wire.ts";
import type { Owner } from "../../ipam/owner.ts";
import type { RefusalError } from "../../ipam/refusals.ts";
import { parseAddress } from "../../ipam/space/address.ts";
import { ApiAway } from "../../kube/kube-api.ts";
import type { SqliteStore } from "../../store/standalone/standalone-store.ts";
import { NO_FACTS } from "./no-facts.ts";
import { PodStore } from "./pod-store.ts";

/** One address, which never cools down. */
const ONE_ADDRESS = { subnets: "10.10.0.0/30", excludeSubnets: "10.10.0.2/32", cooldownSeconds: 0 };
const QUESTION: IdentityQuestion = {
  kind: "address",
  address: parseAddress("10.10.0.1"),
  network: undefined,
};
const VM: IdentityVm = { namespace: "shop", name: "vm1", uid: "", vmiUid: "vmi", firmwareUuid: null };

let pods: PodStore;
let store: SqliteStore;

beforeEach(async () => {
  pods = new PodStore(ONE_ADDRESS);
  store = pods.store;
  await store.open();
});
afterEach(() => pods.close());

async function add(containerId: string): Promise<void> {
  expect((await pods.add(containerId)).kind).toBe("attached");
}

function serviceWith(vms: Partial<LocalVms>, more: Partial<IdentityParts> = {}): IdentityService {
  const source = new StandaloneIdentities(store, NO_FACTS);
  const all: LocalVms = {
    known: () => null,
    learn: async () => {},
    knownOf: () => null,
    learnOf: async () => {},
    nameOf: () => null,
    ...vms,
  };
  return new IdentityService({
    store,
    source,
    vms: all,
    facts: NO_FACTS,
    notReady: () => null,
    ...more,
  });
}

const refusalOf = (service: IdentityService, here = true) =>
  service.answer({ question: QUESTION, here }).then(
    () => null,
    (error: RefusalError) => error.refusal ?? error,
  );

test("an address whose owner changes during the look-up is answered with its present owner", async () => {
  await add("old");
  const learnt = new Set<string>();
  const asked: string[] = [];
  const service = serviceWith({
    known: ([one]) => (learnt.has(one?.uses[0]?.containerID ?? "") ? VM : undefined),
    learn: async ([one]) => {
      const id = one?.uses[0]?.containerID ?? "";
      asked.push(id);
      if (id === "old") {
        await pods.del("old");
        await add("new");
      }
      learnt.add(id);
    },
  });
  const { identity } = await service.answer({ question: QUESTION, here: true });
  expect(asked).toEqual(["old", "new"]);
  expect(identity.pods).toMatchObject([{ name: "launcher-new", containerID: "new" }]);
});

test("an address that is released during the look-up is not found", async () => {
  await add("old");
  const service = serviceWith({ known: () => undefined, learn: async () => void (await pods.del("old")) });
  expect(await refusalOf(service)).toMatchObject({ code: "NOT_FOUND" });
});

test("facts that cannot be read make the answer fail", async () => {
  await add("c1");
  const learn = () => Promise.reject(new ApiAway("no answer"));
  expect(await refusalOf(serviceWith({ known: () => undefined, learn }))).toBeInstanceOf(ApiAway);
});

test("two owners of one address are an error, and neither is answered", async () => {
  await add("c1");
  const other: Owner = { kind: "pod", uid: "uid-c2", interface: "eth0", namespace: "shop", name: "other" };
  const twice = Object.create(store, {
    usersOf: {
      value: (...which: Parameters<SqliteStore["usersOf"]>) => [
        ...store.usersOf(...which),
        { network: "blue", containerId: "c2", owner: other },
      ],
    },
  }) as SqliteStore;
  for (const here of [true, false]) {
    expect(await refusalOf(serviceWith({}, { store: twice }), here)).toMatchObject({
      code: "INTERNAL_ERROR",
      message: expect.stringMatching(/pod shop\/other \(eth0\).*pod shop\/launcher-c1 \(eth0\)/),
    });
  }
});

test("an address of a claim without a VM is of the pod that came last, though the attachment of the one before is recorded", async () => {
  await add("now");
  const [now] = store.attachmentsOfContainer("now");
  if (now === undefined) throw new Error("it is attached");
  const pod = { namespace: "shop", name: "launcher-former", uid: "uid-former" };
  const former = { ...now, containerId: "former", pod, sinceMs: now.sinceMs - 5_000 };
  const both = Object.create(store, {
    usersOf: { value: () => [former, now] },
    attachmentsOfContainer: { value: (id: string) => (id === "former" ? [former] : [now]) },
  }) as SqliteStore;
  const answered = async (vms: Partial<LocalVms>) =>
    (await serviceWith(vms, { store: both }).answer({ question: QUESTION, here: true })).identity;
  expect(await answered({})).toMatchObject({ state: "running", pods: [{ name: "launcher-now" }] });
  expect((await answered({ known: () => VM })).state).toBe("migrating");
});

test("an attachment that has lost its address to another owner is not answered", async () => {
  await add("c1");
  expect((await serviceWith({}).answer({ question: QUESTION, here: true })).identity.pods).toHaveLength(1);
  await pods.loseFirst();
  expect(await refusalOf(serviceWith({}))).toMatchObject({ code: "NOT_FOUND" });
});

test("nothing is answered while answered DELs may wait in the spool", async () => {
  await add("c1");
  const service = serviceWith({}, { notReady: () => "the spool is not drained yet" });
  for (const here of [true, false]) expect(await refusalOf(service, here)).toMatchObject({ code: "NOT_READY" });
});

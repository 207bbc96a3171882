/** IPNetworks have many writers: what becomes of a change that others come in between of. */
import { beforeEach, expect, test } from "vitest";
import type { KubeRequest } from "../../../kube/kube-api.ts";
import { changeNetworkObject } from "../../../kube/network-object.ts";
import { API_VERSION, type IPNetwork, NETWORKS_PATH } from "../../../kube/objects.ts";
import { KubeInMemory } from "../../harness/kube-in-memory.ts";

const PATH = `${NETWORKS_PATH}/blue`;
const blue = (definedIn: string) => ({
  apiVersion: API_VERSION,
  kind: "IPNetwork",
  metadata: { name: "blue" },
  spec: { network: "blue", definedIn },
});

let api: KubeInMemory;
beforeEach(() => {
  api = new KubeInMemory();
});

/** Gives the network to a namespace, unless it has it; the result tells who had it and what was written. */
const give = (definedIn: string, more: object = {}) =>
  changeNetworkObject(api, "blue", {
    decide: (known) => {
      const from = known?.spec.definedIn;
      if (from === definedIn) return { kind: "leave", result: "left" };
      const written = (object: IPNetwork) => `${from} to ${object.spec.definedIn}`;
      return { kind: "write", fields: { spec: { definedIn } }, afterWrite: written };
    },
    failed: "network blue could not be given",
    ...more,
  });

const isWrite = ({ method }: KubeRequest) => method !== "GET";

test("an absent object is created, and a present one is changed", async () => {
  expect(await give("shop")).toBe("undefined to shop");
  expect(await give("store")).toBe("shop to store");
  expect(api.at(PATH).spec).toEqual({ network: "blue", definedIn: "store" });
});

test("an object that is already as planned is not written", async () => {
  api.put(NETWORKS_PATH, blue("shop"));
  expect(await give("shop")).toBe("left");
  expect(api.writes).toEqual([]);
});

test("after a conflict the change is decided again on the newer object", async () => {
  api.put(NETWORKS_PATH, blue("shop"));
  let others = 2;
  api.before = (request) => {
    if (!isWrite(request) || others === 0) return;
    others -= 1;
    api.put(NETWORKS_PATH, blue(`other-${others}`));
  };
  expect(await give("store")).toBe("other-0 to store");
  expect(api.writes).toHaveLength(1);
});

test("of two concurrent creates the second decides again", async () => {
  let isFirst = true;
  api.before = (request) => {
    if (isWrite(request) && isFirst) api.put(NETWORKS_PATH, blue("store"));
    isFirst = isFirst && !isWrite(request);
  };
  expect(await give("store")).toBe("left");
});

test("after too many conflicts the change is given up, and the message says what failed", async () => {
  let count = 0;
  api.before = (request) => {
    if (!isWrite(request)) return;
    count += 1;
    api.put(NETWORKS_PATH, blue(`other-${count}`));
  };
  api.put(NETWORKS_PATH, blue("shop"));
  await expect(give("store")).rejects.toThrow("network blue could not be given: others kept writing its IPNetwork");
  expect(count).toBe(10);
});

test("a refusal is not retried, and the caller may say what it means", async () => {
  api.put(NETWORKS_PATH, blue("shop"));
  let count = 0;
  api.before = (request) => {
    if (isWrite(request)) count += 1;
  };
  const wrong = 5 as unknown as string;
  await expect(give(wrong)).rejects.toThrow(/^IPNetwork blue: 422 /);
  const refused = ({ status }: { status: number }, name: string) => new TypeError(`${status} ${name}`);
  await expect(give(wrong, { refused })).rejects.toThrow(new TypeError("422 blue"));
  expect(count).toBe(2);
});

test("nothing is written once the deadline has passed", async () => {
  let nowMs = 0;
  api = new KubeInMemory({ ...api.clock, monotonicMs: () => nowMs });
  api.put(NETWORKS_PATH, blue("shop"));
  const decide = () => {
    nowMs = 2_000;
    return { kind: "write", fields: { spec: { definedIn: "store" } }, written: () => "written" };
  };
  await expect(give("store", { decide, deadlineMs: 1_000 })).rejects.toThrow("could not be given");
  expect(api.at(PATH).spec.definedIn).toBe("shop");
});

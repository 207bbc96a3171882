import { afterEach, beforeEach, expect, test } from "vitest";
import { RefusalError } from "../../ipam/refusals.ts";
import type { AppliedContent } from "../../store/manifests.ts";
import { type SqliteSubject, sqliteSubject } from "./subjects.ts";

let subject: SqliteSubject;
beforeEach(async () => {
  subject = await sqliteSubject();
});
afterEach(() => subject.close());

const MIB = 1 << 20;

function content(name: string, more: Partial<AppliedContent> = {}): AppliedContent {
  const data = { "user-data": "eA==" };
  return {
    kind: "Secret",
    namespace: "default",
    name,
    labels: {},
    data,
    immutable: false,
    bytes: 1,
    ...more,
  };
}

async function refusal(applied: AppliedContent): Promise<string> {
  const error = await subject.store.applyContent(applied).then(
    () => new Error("it was taken"),
    (caught: unknown) => caught as Error,
  );
  return error instanceof RefusalError ? error.refusal.message : `${error}`;
}

test("a node keeps 4096 objects: one more is refused with a remedy, a change of one is not, nor one after a deletion", async () => {
  const { store } = subject;
  await Promise.all(Array.from({ length: 4_096 }, (_, n) => store.applyContent(content(`s${n}`))));
  expect(await refusal(content("more"))).toMatch(
    /^metadata\.name is "more": this node keeps 4096 .* holdfast content lists them/,
  );
  const data = { "user-data": "eXk=" };
  expect(await store.applyContent(content("s7", { data, bytes: 2 }))).toBe("configured");
  expect(await store.deleteContent("Secret", "default", "s8")).toBe(true);
  expect(await store.applyContent(content("more"))).toBe("created");
  expect(await store.contentViews()).toHaveLength(4_096);
});

test("a node keeps 256 MiB of values: what would exceed them is refused, what makes them smaller is not", async () => {
  const { store } = subject;
  await store.applyContent(content("large", { bytes: 200 * MIB }));
  expect(await refusal(content("other", { bytes: 57 * MIB }))).toMatch(/a node takes 268435456; holdfast content/);
  expect(await store.applyContent(content("other", { bytes: 56 * MIB }))).toBe("created");
  const data = { "user-data": "eXk=" };
  expect(await refusal(content("other", { data, bytes: 57 * MIB }))).toContain("a node takes");
  expect(await store.applyContent(content("large", { data, bytes: 199 * MIB }))).toBe("configured");
  expect(await store.applyContent(content("other", { data, bytes: 57 * MIB }))).toBe("configured");
});

test("objects of one name are told apart by kind and namespace, and outlive the store that wrote them", async () => {
  const data = { key: "eXk=" };
  await subject.store.applyContent(content("web"));
  await subject.store.applyContent(content("web", { kind: "ConfigMap", data }));
  await subject.store.applyContent(content("web", { namespace: "shop", data, labels: { a: "b" } }));
  await subject.reopen();
  const { store } = subject;
  expect(store.contentObject("Secret", "default", "web")?.data).toEqual({ "user-data": "eA==" });
  expect(store.contentObject("ConfigMap", "default", "web")?.data).toEqual(data);
  expect(store.contentObject("Secret", "shop", "web")).toEqual({
    kind: "Secret",
    namespace: "shop",
    name: "web",
    labels: { a: "b" },
    data,
  });
  expect(store.contentObject("ConfigMap", "shop", "web")).toBeNull();
  expect(await store.deleteContent("Secret", "shop", "web")).toBe(true);
  expect(await store.deleteContent("Secret", "shop", "web")).toBe(false);
  expect((await store.contentViews()).map(({ kind, namespace }) => `${kind} ${namespace}`)).toEqual([
    "ConfigMap default",
    "Secret default",
  ]);
});

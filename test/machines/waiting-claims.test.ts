/**
 * Many claims on a pool that is full: what they cost while they wait, and when one address is freed for all of them.
 */
import { expect, test } from "vitest";
import { beginLan, names } from "./lan.ts";

const WAITING = 1_000;

test("a thousand claims that wait are written once each, and one freed address costs one create", async () => {
  const { world, capi, writes, held } = await beginLan({
    ipam: { subnets: "10.0.0.0/29", cooldownSeconds: 0 },
  });
  for (const name of names(6)) await capi.claim(name, "lan");
  for (const name of names(6)) await capi.fulfilled(name);
  const before = writes().length;
  await Promise.all(Array.from({ length: WAITING }, (_, index) => capi.claim(`w${index}`, "lan")));
  const waiting = async () => {
    const claims = await capi.claims();
    return claims.filter(({ status }) => status?.conditions?.[0]?.reason === "PoolExhausted").length;
  };
  await world.until(async () => (await waiting()) === WAITING, "all to be told that the pool is full");
  expect(writes().slice(before)).toEqual(new Array(WAITING).fill("PATCH ipaddressclaims"));
  const told = writes().length;
  await capi.deleteClaim("m3");
  await world.until(async () => (await waiting()) === WAITING - 1, "one of them to be answered");
  const posts = writes()
    .slice(told)
    .filter((one) => one.startsWith("POST"));
  expect(posts.toSorted()).toEqual(["POST ipaddresses", "POST ipallocations"]);
  expect((await held()).filter((one) => one.startsWith("w"))).toHaveLength(1);
});

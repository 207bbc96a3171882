import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { arrivingClaims } from "../metadata-net/ipv6-claims.ts";
import type { PortGuest } from "../metadata-net/node.ts";
import { OvsNode, whoIs, whyNotOvs } from "./ovs-node.ts";

/** From fe80::1234 or nobody, extension headers or none, type 135 or 128. */
const QUESTION = /^(0.{3}aaaa03000000)?86dd6.{13}ff(fe80{25}1234|0{32}).{32}([23][ac].{14})*8[07]00/;

describe.skipIf(whyNotOvs() !== null)("the IPv6 addresses of metadata services on a userspace bridge", () => {
  let node: OvsNode;
  let a: PortGuest;
  let b: PortGuest;
  let stranger: PortGuest;

  beforeAll(async () => {
    node = await OvsNode.start();
    a = await node.guest("br-vm", { address: "10.0.0.5/24" });
    b = await node.guest("br-vm", { address: "10.0.0.6/24" });
    stranger = await node.guest("br-vm", { address: "10.0.0.9/24" });
    expect(await node.net.wanted(a.on("net-a"), b.on("net-b"))).toEqual({});
  });

  afterAll(async () => {
    expect(await node?.stop()).toEqual([]);
  });

  /** Claims by their bytes after the MACs, without questions for the addresses: nobody believes anything by one. */
  const kinds = (frames: readonly string[]) =>
    [...new Set(frames)].map((frame) => frame.slice(24)).filter((frame) => !isQuestion(frame));

  /** A solicitation or a ping, for one of the addresses and from another one. */
  const isQuestion = (frame: string) => QUESTION.test(frame);

  test("no frame of a guest that claims one reaches another port, however it is encapsulated", async () => {
    for (const to of [a, stranger]) {
      const { sent, claims, others } = await arrivingClaims(to, b);
      expect(sent).toBe(500);
      expect(kinds(claims)).toEqual([]);
      expect(others).toHaveLength(1);
    }
  });

  test("no claim from a port without a guest reaches a guest", async () => {
    const { claims, others } = await arrivingClaims(a, stranger);
    expect(kinds(claims)).toEqual([]);
    expect(others).toHaveLength(1);
    expect(await whoIs(a)).toBe("net-a");
  });
});

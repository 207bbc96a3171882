import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { whyNotReal } from "../network/containers.ts";
import { arrivingClaims as arriving } from "./ipv6-claims.ts";
import { NetNode, type PortGuest } from "./node.ts";

const DRIVERS = whyNotReal() === null ? ["auto", "bridge"] : [];

describe.each(DRIVERS)("the IPv6 addresses of metadata services, driver %s", (driver) => {
  let node: NetNode;
  let bridge: string;
  let a: PortGuest;
  let b: PortGuest;
  let strangers: readonly [PortGuest, PortGuest];
  beforeAll(async () => {
    node = await NetNode.start(["--driver", driver]);
    bridge = await node.bridge();
    const other = await node.bridge();
    a = await node.guest(bridge, "10.30.0.5/24");
    b = await node.guest(bridge, "10.30.0.6/24");
    strangers = [await node.guest(other, "10.30.0.5/24"), await node.guest(other, "10.30.0.6/24")];
    expect(await node.wanted(a.on("blue"), b.on("blue"))).toEqual({});
  });
  afterAll(async () => {
    expect(await node.stop(), node.log).toEqual([]);
  });

  test("no frame that claims or asks for one passes between guests, however it is wrapped", async () => {
    const { sent, claims, others } = await arriving(a, b);
    expect(sent).toBe(500);
    expect(claims).toEqual([]);
    expect(others).toHaveLength(1);
  });

  test("no such frame comes in from outside or goes out", async () => {
    const uplink = await node.uplink(bridge);
    expect((await arriving(a, uplink)).claims).toEqual([]);
    expect((await arriving(uplink, a)).claims).toEqual([]);
  });

  test("all such frames pass on a bridge without a listener", async () => {
    const [one, other] = strangers;
    const { sent, claims, others } = await arriving(one, other);
    expect(claims.length).toBe(sent);
    expect(others).toHaveLength(1);
  });
});

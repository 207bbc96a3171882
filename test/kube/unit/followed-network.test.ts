/** What a claim says of the network that its VM has left. */
import { describe, expect, test } from "vitest";
import { allocatedCondition } from "../../../ipam/claim-conditions.ts";
import { claimStatusPatch } from "../../../kube/views/claim-status-patch.ts";
import { projectClaim } from "../../../kube/views/claim-view.ts";
import { closedChange, openChange } from "../../../kube/views/followed-network.ts";
import { claim } from "../../claims/objects.ts";

const blue = { network: "blue", ips: ["10.0.0.5/24", "fd00::5/64"] };
const red = { network: "red", ips: ["10.9.0.7/24"] };
const OPEN = "blue 10.0.0.5/24,fd00::5/64 -> red 10.9.0.7/24";
const CLOSED = "blue 10.0.0.5/24,fd00::5/64";

const viewOf = (annotation: string | null, ips: readonly string[], network = "red") =>
  projectClaim(
    claim({
      metadata: { annotations: annotation === null ? {} : { "ipam.holdfast.dev/followed": annotation } },
      spec: { network },
      status: { ips },
    }),
  );

test("it is written as it is read", () => {
  expect(openChange(blue, red)).toBe(OPEN);
  expect(closedChange(blue)).toBe(CLOSED);
});

test("a name with a space is one word", () => {
  const spaced = { network: "a b", ips: ["10.0.0.5/24"] };
  const annotation = openChange(spaced, { network: "c d", ips: ["10.9.0.7/24"] });
  expect(annotation).toBe("a%20b 10.0.0.5/24 -> c%20d 10.9.0.7/24");
  expect(viewOf(annotation, spaced.ips, "c d")).toMatchObject({
    ips: ["10.9.0.7/24"],
    followed: { former: spaced, isOpen: true, isListed: false },
  });
  expect(viewOf(closedChange(spaced), ["10.9.0.7/24"], "c d").followed?.former).toEqual(spaced);
});

const former = { network: "blue", ips: ["10.0.0.5/24", "fd00::5/64"] };

describe("what the claim has", () => {
  test.each([
    [null, blue.ips, blue.ips, null, "it was nowhere else"],
    [OPEN, blue.ips, red.ips, { former, isOpen: true, isListed: false }, "the list is not written yet"],
    [OPEN, red.ips, red.ips, { former, isOpen: true, isListed: true }, "it is written"],
    [OPEN, [], red.ips, { former, isOpen: true, isListed: false }, "somebody has emptied the list"],
    [CLOSED, red.ips, red.ips, { former, isOpen: false, isListed: true }, "the change is over"],
    [CLOSED, [], [], { former, isOpen: false, isListed: true }, "it is over, and the list was emptied"],
    [OPEN.replace("-> red", "-> green"), red.ips, red.ips, null, "about another network"],
    [
      OPEN.replace("blue", "red"),
      ["10.0.0.5/24", "fd00::5/64"],
      red.ips,
      { former: { ...former, network: "red" }, isOpen: true, isListed: false },
      "other addresses of the same network",
    ],
    ["blue", red.ips, red.ips, null, "no addresses"],
    [
      "%E0 10.0.0.5/24",
      red.ips,
      red.ips,
      { former: { network: "%E0", ips: ["10.0.0.5/24"] }, isOpen: false, isListed: true },
      "a name that nobody has encoded",
    ],
    ["", red.ips, red.ips, null, "nothing"],
    [`${OPEN} and more`, red.ips, red.ips, null, "more than it has words for"],
    [OPEN.replace("->", "=>"), red.ips, red.ips, null, "without an arrow"],
  ] as const)("%s, listing %j: %j", (annotation, listed, ips, followed, _why) => {
    expect(viewOf(annotation, listed)).toMatchObject({ ips, followed });
  });
});

describe("a write of the status", () => {
  const features = { ownerPod: true, conditions: true };
  const nothing = { ips: [], ownerPod: null, condition: null, features };

  test("completes a change, whatever it is about", () => {
    const condition = allocatedCondition("2026-11-21T12:00:00Z");
    expect(claimStatusPatch(viewOf(OPEN, blue.ips), nothing)).toMatchObject({ status: { ips: red.ips } });
    expect(claimStatusPatch(viewOf(OPEN, blue.ips), { ...nothing, condition })).toMatchObject({
      status: { ips: red.ips, conditions: [condition] },
    });
  });

  test("changes nothing where nothing is to be completed", () => {
    expect(claimStatusPatch(viewOf(OPEN, red.ips), nothing)).toBeNull();
    expect(claimStatusPatch(viewOf(CLOSED, red.ips), nothing)).toBeNull();
  });

  test("never writes another list", () => {
    expect(() => claimStatusPatch(viewOf(OPEN, blue.ips), { ...nothing, ips: blue.ips })).toThrow(
      /has 10\.9\.0\.7\/24, which nobody may overwrite/,
    );
  });
});

import { expect, test } from "vitest";
import { duplicateMacFindings, type MacUser } from "../../ipam/duplicate-macs.ts";

const user = (owner: string, mac: string | null, network = "blue"): MacUser => ({
  network,
  mac,
  owner,
  who: `pod shop/${owner}`,
});
const MAC = "02:00:00:00:00:0a";

test("interfaces of different owners with one MAC on one network, in whatever spelling", () => {
  const findings = duplicateMacFindings([
    user("b", MAC),
    user("other", "02:00:00:00:00:0b"),
    user("a", MAC.toUpperCase().replaceAll(":", "-")),
    user("c", MAC),
  ]);
  expect(findings).toEqual([
    {
      invariant: "mac",
      message: `${MAC} is the MAC address of pod shop/a and of pod shop/b and of pod shop/c on network blue`,
      hint: "where they share a link, frames reach either: give all but one another MAC address, and start them again",
    },
  ]);
});

test("one owner twice, other networks, and what is no MAC are none", () => {
  const users = [
    user("a", MAC),
    user("a", MAC),
    user("b", MAC, "red"),
    user("c", null),
    user("d", "x"),
    user("e", "x"),
  ];
  expect(duplicateMacFindings(users)).toEqual([]);
});

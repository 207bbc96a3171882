import { expect, test } from "vitest";
import { Grace } from "../../admin/cluster/grace.ts";

const NOW = "2026-01-01T12:00:00Z";

test.each<[string | null | undefined, boolean, string]>([
  ["2026-01-01T11:59:30Z", false, "half a minute ago"],
  ["2026-01-01T11:58:00Z", true, "two minutes ago"],
  ["2026-01-01T12:00:30Z", false, "written by a node whose clock is half a minute ahead"],
  ["2026-01-01T12:04:00Z", true, "written by a node whose clock was minutes ahead"],
  ["2027-01-01T12:00:00Z", true, "written by a node whose clock was a year ahead"],
  ["yesterday", true, "unreadable"],
  [null, true, "none"],
  [undefined, true, "none"],
])("a finding of %s is old enough: %s (%s)", (since, expected) => {
  expect(new Grace(Date.parse(NOW), 60).isOver(since)).toBe(expected);
});

import type { AllocationView } from "../allocations/records.ts";
import { isoTime, parseTime } from "../platform/time.ts";
import type { Column } from "./formats/table.ts";
import { distinct, fullHolder, podName, shortHolder, usersOf } from "./holder.ts";
import { formatAge, youngestFirst } from "./human.ts";

const stateColumn = {
  header: "STATE",
  colour: ({ state }: AllocationView) => (state === "Bound" ? null : ("grey" as const)),
};

/** `Bound`, `Cooling`, `Retained 29d`: for how long it is still reserved. */
function shortState({ state, retainedUntil }: AllocationView, nowMs: number): string {
  return retainedUntil === undefined ? state : `${state} ${formatAge(isoTime(nowMs), parseTime(retainedUntil))}`;
}

/** `Bound`, `Cooling`, `Retained until 2026-01-31T12:00:00.000Z`. */
function fullState({ state, retainedUntil }: AllocationView): string {
  return retainedUntil === undefined ? state : `${state} until ${retainedUntil}`;
}

export function allocationColumns(nowMs: number): Column<AllocationView>[] {
  return [
    { header: "NETWORK", cell: ({ network }) => network },
    { header: "ADDRESS", cell: ({ address }) => address, isWhole: true },
    { header: "HOLDER", only: "table", cell: ({ owner }) => shortHolder(owner) },
    { header: "HOLDER", only: "wide", cell: ({ owner }) => fullHolder(owner) },
    { header: "ASKED FOR", only: "wide", cell: ({ asked }) => asked?.join(",") ?? "" },
    { header: "VM", cell: ({ vm }) => vm?.name ?? "" },
    { header: "USED BY", only: "table", cell: ({ owner, attachments }) => usersOf(owner, attachments) },
    {
      header: "POD",
      only: "wide",
      cell: ({ attachments }) => distinct(attachments.flatMap(({ pod }) => (pod ? [podName(pod)] : []))),
    },
    {
      header: "CONTAINER",
      only: "wide",
      cell: ({ attachments }) => distinct(attachments.map((one) => `${one.containerID}(${one.interface})`)),
    },
    {
      header: "NETNS",
      only: "wide",
      cell: ({ attachments }) => distinct(attachments.map(({ netns }) => netns)),
    },
    { header: "NODE", cell: ({ attachments }) => distinct(attachments.map(({ node }) => node)) },
    { ...stateColumn, only: "table", cell: (one) => shortState(one, nowMs) },
    { ...stateColumn, only: "wide", cell: fullState },
    {
      header: "AGE",
      only: "table",
      cell: ({ since }) => formatAge(since, nowMs),
      order: ({ since }) => youngestFirst(since),
    },
    { header: "SINCE", only: "wide", cell: ({ since }) => since },
  ];
}

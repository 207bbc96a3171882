import type { AllocationView } from "../store/records.ts";
import { distinct, fullHolder, podName, shortHolder, usersOf } from "./holder.ts";
import { formatAge } from "./human.ts";
import type { Column } from "./table.ts";

/** The columns of one allocation in `list`, `show` and `who`. */
export function allocationColumns(nowMs: number): Column<AllocationView>[] {
  return [
    { header: "NETWORK", cell: ({ network }) => network },
    { header: "ADDRESS", cell: ({ address }) => address },
    { header: "HOLDER", only: "table", cell: ({ owner }) => shortHolder(owner) },
    { header: "HOLDER", only: "wide", cell: ({ owner }) => fullHolder(owner) },
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
    {
      header: "STATE",
      cell: ({ state }) => state,
      colour: ({ state }) => (state === "Cooling" ? "grey" : null),
    },
    { header: "AGE", only: "table", cell: ({ since }) => formatAge(since, nowMs) },
    { header: "SINCE", only: "wide", cell: ({ since }) => since },
  ];
}

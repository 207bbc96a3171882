import type { Command } from "commander";
import { USE_KUBECTL } from "../../admin/elsewhere.ts";
import type { Clock } from "../../platform/time.ts";
import type { ContentView } from "../../store/manifests.ts";
import { nodeClientOf } from "../choose-client.ts";
import type { Column } from "../formats/table.ts";
import { formatAge, formatBytes } from "../human.ts";
import { printList, withList } from "../output.ts";

export function addContent(program: Command, clock: Clock): void {
  withList(program.command("content"))
    .description("Secrets and ConfigMaps that claims name for their guests")
    .addHelpText("after", "\nTheir values are never shown.")
    .action(async (_options: unknown, command: Command) => {
      const { items } = await nodeClientOf(command, USE_KUBECTL).get("/v1/content");
      const columns = contentColumns(clock.wallMs());
      await printList(command, { items, columns, empty: "no content" });
    });
}

function contentColumns(nowMs: number): Column<ContentView>[] {
  return [
    { header: "NAMESPACE", cell: ({ namespace }) => namespace },
    { header: "KIND", cell: ({ kind }) => kind },
    { header: "NAME", cell: ({ name }) => name },
    { header: "KEYS", cell: ({ keys }) => keys.map(({ key }) => key).join(",") },
    { header: "SIZE", cell: ({ bytes }) => formatBytes(bytes) },
    { header: "CLAIMS", cell: ({ claims }) => claims.join(",") },
    {
      header: "AGE",
      only: "table",
      cell: ({ creationTimestamp }) => formatAge(creationTimestamp, nowMs),
    },
    { header: "CREATED", only: "wide", cell: ({ creationTimestamp }) => creationTimestamp },
  ];
}

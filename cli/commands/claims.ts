import type { Command } from "commander";
import type { ClaimCondition } from "../../ipam/claim-conditions.ts";
import type { Clock } from "../../platform/time.ts";
import type { ClaimManifest } from "../../store/manifests.ts";
import { type NamespaceChoice, splitName, withNamespaces } from "../arguments.ts";
import { clientOf } from "../choose-client.ts";
import { CommandError } from "../failure.ts";
import type { Column } from "../formats/table.ts";
import { formatAge, youngestFirst } from "../human.ts";
import { formatOf, isDocument, printDocument, printList, withList } from "../output.ts";
import { allOf, pagesOf } from "../pages.ts";

/** `holdfast claims [NAME]`: IPAMClaims; as YAML exactly what Kubernetes would show, ready for `apply -f`. */
export function addClaims(program: Command, clock: Clock): void {
  withNamespaces(withList(program.command("claims")), "of this namespace")
    .description("IPAMClaims: the addresses that outlive their pods")
    .argument("[name]", "one claim: [namespace/]name")
    .action(async (wanted: string | undefined, options: NamespaceChoice, command: Command) => {
      const { namespace, name } =
        wanted === undefined ? { namespace: options.namespace, name: undefined } : splitName(wanted, options.namespace);
      const format = formatOf(command);
      const asDocument = isDocument(format);
      const all = pagesOf(clock, clientOf(command), "/v1/claims", { namespace, name });
      const pages = asDocument ? asObjects(all) : all;
      const named = name === undefined ? null : await allOf(pages);
      if (named?.length === 0) {
        throw new CommandError(`there is no claim ${namespace === undefined ? name : `${namespace}/${name}`}`, {
          hint: "holdfast claims lists those of every namespace",
        });
      }
      const [only, ...others] = named ?? [];
      if (only && others.length === 0 && asDocument) return printDocument(command, only);
      const columns = claimColumns(clock.wallMs()).filter(
        ({ header }) => header !== "NAMESPACE" || namespace === undefined,
      );
      const around = { apiVersion: "v1", kind: "List", metadata: { resourceVersion: "" } };
      const empty = namespace === undefined ? "no claims" : `no claims in namespace ${namespace}`;
      const claimName = ({ metadata }: ClaimManifest) => `${metadata.namespace}/${metadata.name}`;
      await printList(command, { items: named ?? pages, columns, empty, around, name: claimName });
    });
}

/** Without what is not the objects' own. */
async function* asObjects(pages: AsyncIterable<readonly ClaimManifest[]>): AsyncGenerator<readonly ClaimManifest[]> {
  for await (const page of pages) yield page.map(({ asked: _, ...object }) => object);
}

function claimColumns(nowMs: number): Column<ClaimManifest>[] {
  return [
    { header: "NAMESPACE", cell: ({ metadata }) => metadata.namespace },
    { header: "NAME", cell: ({ metadata }) => metadata.name },
    { header: "NETWORK", cell: ({ spec }) => spec.network },
    { header: "IPS", cell: ({ status }) => status?.ips.join(",") ?? "", isWhole: true },
    { header: "ASKED FOR", only: "wide", cell: ({ asked }) => asked?.join(",") ?? "" },
    { header: "OWNERPOD", cell: ({ status }) => status?.ownerPod?.name ?? "" },
    {
      header: "STATUS",
      cell: statusText,
      colour: (claim) => (conditionOf(claim)?.status === "False" ? "red" : null),
    },
    {
      header: "AGE",
      only: "table",
      cell: ({ metadata }) => formatAge(String(metadata.creationTimestamp), nowMs),
      order: ({ metadata }) => youngestFirst(String(metadata.creationTimestamp)),
    },
    { header: "CREATED", only: "wide", cell: ({ metadata }) => String(metadata.creationTimestamp) },
    { header: "UID", only: "wide", cell: ({ metadata }) => metadata.uid },
    { header: "MESSAGE", only: "wide", cell: (claim) => conditionOf(claim)?.message ?? "" },
  ];
}

/** The status in a word: being deleted, else the reason of its condition, else never used. */
function statusText(claim: ClaimManifest): string {
  if (claim.metadata.deletionTimestamp !== undefined) return "Terminating";
  return conditionOf(claim)?.reason ?? "Unused";
}

function conditionOf({ status }: ClaimManifest): ClaimCondition | undefined {
  return (status?.conditions as readonly ClaimCondition[] | undefined)?.find(({ type }) => type === "IPsAllocated");
}

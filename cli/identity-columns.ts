import type { IdentityAnswer, IdentityInterface, IdentityPod } from "../identity/wire.ts";
import type { Column } from "./formats/table.ts";
import { distinct, shortContainerId } from "./holder.ts";
export interface IdentityRow {
  readonly answer: IdentityAnswer;
  readonly interface: IdentityInterface;
}

export function rowsOf(answers: readonly IdentityAnswer[]): IdentityRow[] {
  return answers.flatMap((answer) => answer.identity.interfaces.map((one) => ({ answer, interface: one })));
}

/** The columns of an identity in `who`, one line per interface. */
export function identityColumns(rows: readonly IdentityRow[]): Column<IdentityRow>[] {
  const isAsked = rows.some((row) => row.interface.asked !== undefined);
  const asked: Column<IdentityRow> = {
    header: "ASKED FOR",
    cell: (row) => row.interface.asked?.join(",") ?? "",
  };
  const vm = ({ answer }: IdentityRow) => answer.identity.vm;
  const pods = ({ answer }: IdentityRow) => answer.identity.pods;
  return [
    { header: "NETWORK", cell: (row) => row.interface.network },
    { header: "INTERFACE", cell: (row) => row.interface.interface ?? "" },
    { header: "ADDRESSES", cell: (row) => row.interface.addresses.map(({ address }) => address).join(",") },
    ...(isAsked ? [asked] : []),
    { header: "CLAIM", cell: (row) => row.interface.claim ?? "" },
    { header: "VM", cell: (row) => nameOf(vm(row)) },
    { header: "USED BY", only: "table", cell: (row) => distinct(pods(row).map(userOf)) },
    { header: "POD", only: "wide", cell: (row) => distinct(pods(row).flatMap((one) => nameOf(one) || [])) },
    { header: "CONTAINER", only: "wide", cell: (row) => distinct(pods(row).map((one) => one.containerID)) },
    { header: "NODE", cell: (row) => distinct(pods(row).map(({ node }) => node)) },
    { header: "MAC", only: "wide", cell: (row) => row.interface.mac ?? "" },
    { header: "VM UID", only: "wide", cell: (row) => vm(row)?.uid ?? "" },
    { header: "VMI UID", only: "wide", cell: (row) => vm(row)?.vmiUid ?? "" },
    { header: "FIRMWARE UUID", only: "wide", cell: (row) => vm(row)?.firmwareUuid ?? "" },
    { header: "STATE", cell: ({ answer }) => answer.identity.state },
  ];
}

function userOf(pod: IdentityPod): string {
  const name = nameOf(pod);
  return name === "" ? `container ${shortContainerId(pod.containerID)}` : `pod ${name}`;
}

function nameOf(object: { readonly namespace: string | null; readonly name: string | null } | null): string {
  return object?.name ? `${object.namespace}/${object.name}` : "";
}

import type { NetworkWithClaims } from "../../admin/admin-api.ts";
import type { StreamEvents } from "../wire.ts";
import type { Hello, Ledger } from "./ledger.ts";

const GONE = {
  message: "holdfast ui has ended, or cannot be reached",
  hint: "start holdfast ui again, and open the URL that it prints",
};

/** Fills the ledger from the stream; the browser connects again by itself. */
export function connect(ledger: Ledger): void {
  const source = new EventSource("/stream");
  const on = <Name extends keyof StreamEvents>(name: Name, apply: (data: StreamEvents[Name]) => void) =>
    source.addEventListener(name, (event) => {
      apply(JSON.parse((event as MessageEvent<string>).data));
    });
  on("hello", (hello: Hello) => ledger.begin(hello));
  on("networks", (networks: readonly NetworkWithClaims[]) => {
    ledger.networks.value = networks;
  });
  on("rows", (rows) => ledger.apply(rows));
  on("synced", () => ledger.complete());
  on("source", (problem) => {
    ledger.problem.value = problem;
  });
  source.addEventListener("error", () => {
    // The browser tries again and again: what is shown has been old since the first failure.
    if (ledger.problem.value?.message !== GONE.message)
      ledger.problem.value = { ...GONE, since: new Date().toISOString() };
  });
}

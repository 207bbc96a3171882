import type { ObjectKind } from "../../kube/views/content-annotations.ts";
import type { Transaction } from "../journal/group-commit.ts";
import type { Ledger } from "../journal/ledger.ts";
import type { StateDirectory } from "../journal/state-directory.ts";
import type { AppliedClaim, AppliedContent, AppliedDefinition, ApplyAction } from "../manifests.ts";
import type { ManifestWrites, ReleaseOutcome, ReleaseWant } from "../node-store.ts";
import { applyClaim, deleteClaim } from "./apply-claim.ts";
import { applyContent, deleteContent } from "./apply-content.ts";
import { applyDefinition, deleteDefinition } from "./apply-definition.ts";
import { releaseAddress } from "./release.ts";

class RollBack extends Error {}

/** What would become of objects: everything is carried out, and rolled back. */
export class Rehearsal implements ManifestWrites {
  readonly #directory: StateDirectory;

  constructor(directory: StateDirectory) {
    this.#directory = directory;
  }

  async #run<T>(work: (ledger: Ledger, transaction: Transaction) => T): Promise<T> {
    const done: { value: T }[] = [];
    try {
      return await this.#directory.write((ledger, transaction) => {
        done.push({ value: work(ledger, transaction) });
        throw new RollBack();
      });
    } catch (error) {
      const [one] = done;
      if (error instanceof RollBack && one !== undefined) return one.value;
      throw error;
    }
  }

  applyClaim(claim: AppliedClaim): Promise<ApplyAction> {
    return this.#run((ledger, transaction) => applyClaim(ledger, transaction, claim));
  }

  deleteClaim(namespace: string, name: string): Promise<ReturnType<typeof deleteClaim>> {
    return this.#run((ledger, transaction) => deleteClaim(ledger, transaction, namespace, name));
  }

  applyDefinition(definition: AppliedDefinition): Promise<ApplyAction> {
    return this.#run((ledger, transaction) => applyDefinition(ledger, transaction, definition));
  }

  deleteDefinition(namespace: string, name: string): Promise<boolean> {
    return this.#run((ledger, transaction) => deleteDefinition(ledger, transaction, namespace, name));
  }

  release(which: ReleaseWant): Promise<ReleaseOutcome> {
    return this.#run((ledger, transaction) => releaseAddress(ledger, transaction, which));
  }

  applyContent(content: AppliedContent): Promise<ApplyAction> {
    return this.#run((ledger) => applyContent(ledger, content));
  }

  deleteContent(kind: ObjectKind, namespace: string, name: string): Promise<boolean> {
    return this.#run((ledger) => deleteContent(ledger, { kind, namespace, name }));
  }
}

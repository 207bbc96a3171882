import type { PlainStore } from "./view.ts";

/** What the oracle asks of a node at rest. */
export interface CheckedMachine {
  readonly name: string;
  readonly isUp: boolean;
  readonly isSuspended?: boolean;
  readonly daemon: {
    readonly core: {
      notReady(): string | null;
      readonly admin: {
        check(graceSeconds: number | null): Promise<{
          readonly findings: readonly { readonly invariant: string; readonly message: string }[];
        }>;
      };
    };
  } | null;
}

export interface OracleParts {
  readonly etcd: PlainStore;
  /** Of the world, ms. */
  nowMs(): number;
  /** What the API server's clock shows, ms. */
  wallMs(): number;
  machines(): readonly CheckedMachine[];
  controllers(): readonly {
    readonly isRunning: boolean;
    /**
     * Since when it follows all objects of a kind without having listed them anew, ms of the world; Infinity: it does
     * not.
     */
    knowsSinceMs(kind: "pods"): number;
  }[];
  /** Lets so much time of the world pass, ms. */
  pause(ms: number): Promise<void>;
  /** How long an address is kept at most after its last reason has gone, cool-down and graces included, ms. */
  readonly restMsMax: number;
}

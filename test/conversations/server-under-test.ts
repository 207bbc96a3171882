import type { KubeApi } from "../../kube/kube-api.ts";
import type { Fault, OperateStep, Who } from "./steps.ts";

/** The API server that a conversation is held with, and clients of it. */
export interface ServerUnderTest {
  /** The server's version is 1.`minor`. */
  readonly minor: number;
  api(who: Who): KubeApi;
  /** Of the clock that deadlines are measured on, ms. */
  nowMs(): number;
  /** What it becomes, while time passes as far as it has to. */
  run<T>(work: Promise<T>): Promise<T>;
  /** Resolves when it is so. Throws an Error when that takes too long. */
  until(isSo: () => boolean, what: string): Promise<void>;
  /** Gives controllers their time; then the step that waits for them is tried again. */
  letControllersWork(): Promise<void>;
  /** Restarts, compacts, saves or restores it, or closes its watches. */
  operate(act: OperateStep["act"]): Promise<void>;
  fault(fault: Fault): void;
}

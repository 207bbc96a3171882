import { isObject } from "../../ipam/definition/definition-keys.ts";

/** A condition in either form of Cluster API; what is missing is "". */
export interface ConditionView {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

export function readConditions(value: unknown): ConditionView[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isObject).map(({ type, status, reason, message, lastTransitionTime }) => ({
    type: textOf(type),
    status: textOf(status),
    reason: textOf(reason),
    message: textOf(message),
    lastTransitionTime: textOf(lastTransitionTime),
  }));
}

/** A text; "" for everything else. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

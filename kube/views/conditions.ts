import { isObject } from "../../ipam/definition/definition-keys.ts";

/** A condition in either form of Cluster API; what is missing is "". */
export interface ConditionView {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
  /** Of the old form, where status is False. */
  readonly severity?: string;
  /** Of the present form. */
  readonly observedGeneration?: number;
}

export function readConditions(value: unknown): ConditionView[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isObject).map((one) => {
    const { type, status, reason, message, lastTransitionTime, severity, observedGeneration } = one;
    return {
      type: textOf(type),
      status: textOf(status),
      reason: textOf(reason),
      message: textOf(message),
      lastTransitionTime: textOf(lastTransitionTime),
      ...(typeof severity === "string" ? { severity } : {}),
      ...(typeof observedGeneration === "number" ? { observedGeneration } : {}),
    };
  });
}

/** A text; "" for everything else. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

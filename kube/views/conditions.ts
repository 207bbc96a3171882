import { isObject, type JsonObject } from "../../ipam/definition/definition-keys.ts";

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

/** Conditions of an object that are read: there are five or six. Of more, the last: whoever writes one appends it. */
const CONDITIONS_MAX = 64;

/** The objects of a list of conditions, as many as are read. */
export function conditionsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.slice(-CONDITIONS_MAX).filter(isObject) : [];
}

export function readConditions(value: unknown): ConditionView[] {
  return conditionsIn(value).map((one) => {
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

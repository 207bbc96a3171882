/** What must hold in every state of every world; README.md says each in words. */
export type Property =
  | "given-twice"
  | "another-address"
  | "taken-away"
  | "not-at-rest"
  | "unanswered"
  | "reserved-by-list";

export interface Violated {
  readonly property: Property;
  readonly text: string;
}

export interface Violation extends Violated {
  /** What happened until then. */
  readonly trace: readonly string[];
}

export function violates(property: Property, text: string): Violated {
  return { property, text };
}

/** As a test prints it. */
export function storyOf({ property, text, trace }: Violation): string {
  const lines = trace.map((line, index) => `  ${String(index + 1).padStart(2)}  ${line}`);
  return [`${property}: ${text}`, ...lines].join("\n");
}

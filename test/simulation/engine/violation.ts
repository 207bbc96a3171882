/**
 * Something that must never be. What fails with the same kind fails for the same reason, as far as shrinking can tell.
 */
export class Violation extends Error {
  override readonly name = "Violation";
  /** Short, without names of what it happened to: `I1`, `I2 claim`, `not served`. */
  readonly kind: string;

  constructor(kind: string, what: string) {
    super(what);
    this.kind = kind;
  }
}

/** What was thrown by the product, or by the world itself, where nothing may be thrown. */
export function violationOf(thrown: unknown, where: string): Violation {
  if (isViolation(thrown)) return thrown;
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const violation = new Violation(`thrown ${error.name}`, `${where}: ${error.message}`);
  if (error.stack !== undefined) violation.stack = error.stack;
  return violation;
}

/** The oracle has a class of its own, which knows all of its kinds. */
function isViolation(thrown: unknown): thrown is Violation {
  return thrown instanceof Error && thrown.name === "Violation" && "kind" in thrown;
}

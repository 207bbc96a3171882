/**
 * A template cannot be rendered for this machine, or is none. The message says why. `awaits`: what the machine still
 * lacks; null: the template, or an object or pool it names, has to change.
 */
export class TemplateProblem extends Error {
  override readonly name = "TemplateProblem";
  readonly awaits: "inspection" | null;

  constructor(message: string, awaits: "inspection" | null = null) {
    super(message);
    this.awaits = awaits;
  }
}

/** Renders one part of a template; a problem in it is told with the part's name before it. */
export function inPart<T>(part: string, render: () => T): T {
  try {
    return render();
  } catch (error) {
    if (!(error instanceof TemplateProblem)) throw error;
    throw new TemplateProblem(`${part}: ${error.message}`, error.awaits);
  }
}

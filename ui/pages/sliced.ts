import { useEffect } from "preact/hooks";
import { useSignal } from "./signal.ts";

/** Rows handled in one task, of a few milliseconds. */
export const ROWS_OF_SLICE = 4_000;

/** A generator run in short tasks, again when `changes` do; the last result stays until then. null: none yet. */
export function useSliced<T>(start: () => Generator<void, T>, changes: readonly unknown[]): T | null {
  const result = useSignal<T | null>(null);
  useEffect(() => {
    const work = start();
    let timer: ReturnType<typeof setTimeout>;
    const goOn = () => {
      const step = work.next();
      if (step.done === true) result.value = step.value;
      else timer = setTimeout(goOn);
    };
    timer = setTimeout(goOn);
    return () => clearTimeout(timer);
  }, changes);
  return result.value;
}

/** Handles each in its turn, and yields between slices. */
export function* eachSliced<T>(all: Iterable<T>, handle: (one: T) => void): Generator<void> {
  let seen = 0;
  for (const one of all) {
    handle(one);
    seen += 1;
    if (seen % ROWS_OF_SLICE === 0) yield;
  }
}

export function* filterSliced<T>(all: Iterable<T>, matches: (one: T) => boolean): Generator<void, T[]> {
  const found: T[] = [];
  yield* eachSliced(all, (one) => {
    if (matches(one)) found.push(one);
  });
  return found;
}

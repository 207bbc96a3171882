import { useEffect, useReducer, useRef } from "preact/hooks";

/** A value; whoever shows it is drawn again when it changes. */
export class Signal<T> {
  #value: T;
  readonly #changed: () => void;

  constructor(value: T, changed: () => void) {
    this.#value = value;
    this.#changed = changed;
  }

  get value(): T {
    return this.#value;
  }

  set value(value: T) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    this.#changed();
  }
}

const frames = new Set<() => void>();

/** What all of the page depends on. It is drawn again as a whole: little, where lists show what is in sight. */
export function signal<T>(value: T): Signal<T> {
  return new Signal(value, () => {
    for (const draw of frames) draw();
  });
}

/** Draws the component again when any `signal` changes; of the page's frame. */
export function useSignals(): void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const again = () => draw(undefined as never);
    frames.add(again);
    again();
    return () => frames.delete(again);
  }, []);
}

/** Of one component. */
export function useSignal<T>(initial: T): Signal<T> {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const own = useRef<Signal<T>>(null);
  own.current ??= new Signal(initial, () => draw(undefined as never));
  return own.current;
}

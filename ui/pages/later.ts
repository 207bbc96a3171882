import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/**
 * A value, but in a task of its own after the one in which it changed: what many rows are made into does not hold up the
 * rest of the page. `changes`: when to look.
 */
export function useLater<T>(value: T, changes: unknown): T {
  const later = useSignal(value);
  useEffect(() => {
    const timer = setTimeout(() => {
      later.value = value;
    });
    return () => clearTimeout(timer);
  }, [value, changes]);
  return later.value;
}

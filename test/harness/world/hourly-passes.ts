import { PeriodicTask } from "../../../platform/periodic-task.ts";

const HOUR_MS = 3_600_000;

let isHourly = false;

/**
 * From now on every periodic pass of this process comes an hour after the one before, and the first one an hour after
 * its start: what is done sooner was begun by an event. Returns a function that undoes this.
 */
export function hourlyPasses(): () => void {
  // A file may ask for it where its whole project has it.
  if (isHourly) return () => {};
  isHourly = true;
  const { prototype } = PeriodicTask;
  const interval = Object.getOwnPropertyDescriptor(prototype, "intervalMs") as PropertyDescriptor;
  const start = Object.getOwnPropertyDescriptor(prototype, "start") as PropertyDescriptor;
  Object.defineProperty(prototype, "intervalMs", {
    ...interval,
    get(this: PeriodicTask) {
      return interval.get?.call(this) === undefined ? undefined : HOUR_MS;
    },
  });
  Object.defineProperty(prototype, "start", {
    ...start,
    value(this: PeriodicTask, afterMs = 0) {
      start.value.call(this, afterMs > 0 ? HOUR_MS : 0);
    },
  });
  return () => {
    isHourly = false;
    Object.defineProperty(prototype, "intervalMs", interval);
    Object.defineProperty(prototype, "start", start);
  };
}

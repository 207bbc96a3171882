import type { HTMLAttributes } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { MapCells } from "../pictures/address-map.ts";
import type { StateCounts } from "../pictures/bar.ts";
import type { AddressMapElement } from "../pictures/map-element.ts";
import { type TimePeriod, windowOf } from "../pictures/time-line.ts";
import { now } from "./parts.tsx";

declare module "preact" {
  namespace JSX {
    interface IntrinsicElements {
      "address-bar": HTMLAttributes<HTMLElement>;
      "address-map": HTMLAttributes<HTMLElement>;
      "time-line": HTMLAttributes<HTMLElement>;
    }
  }
}

// The pictures are custom elements with properties: they know nothing of this framework.

export function Bar({ counts }: { counts: StateCounts }) {
  const element = useRef<HTMLElement>(null);
  useEffect(() => {
    Object.assign(element.current as HTMLElement, { counts });
  }, [counts]);
  return <address-bar ref={element} />;
}

interface MapProps {
  readonly cells: MapCells;
  readonly label: string;
  readonly labelOf: (index: number) => string;
  /** Of the row that begins with this cell. */
  readonly rowLabelOf: (index: number) => string;
  readonly changed: ReadonlySet<number>;
  readonly onOpen: (index: number) => void;
}

export function CellMap({ cells, label, labelOf, rowLabelOf, changed, onOpen }: MapProps) {
  const element = useRef<AddressMapElement>(null);
  useEffect(() => {
    Object.assign(element.current as AddressMapElement, { cells, labelOf, rowLabelOf, ariaLabel: label });
  }, [cells, labelOf, rowLabelOf, label]);
  useEffect(() => {
    if (changed.size > 0) (element.current as AddressMapElement).changed = changed;
  }, [changed]);
  useEffect(() => {
    const open = (event: Event) => onOpen((event as CustomEvent<number>).detail);
    element.current?.addEventListener("open", open);
    return () => element.current?.removeEventListener("open", open);
  }, [onOpen]);
  return <address-map ref={element as never} aria-label={label} />;
}

export function TimeLine({ periods, label }: { periods: readonly TimePeriod[]; label: string }) {
  const element = useRef<HTMLElement>(null);
  const nowMs = now.value;
  useEffect(() => {
    const utcOffsetMs = -new Date().getTimezoneOffset() * 60_000;
    Object.assign(element.current as HTMLElement, { periods, window: windowOf(periods, nowMs), utcOffsetMs });
  }, [periods, nowMs]);
  return <time-line ref={element} aria-label={label} />;
}

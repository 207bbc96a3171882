import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Problem } from "../../admin/following.ts";
import { ADDRESS_STATES, type AddressState, cssColour, STATE_SWATCHES } from "../pictures/states.ts";
import { signal, useSignal } from "./signal.ts";
import { agoText, durationText, timeText } from "./words.ts";

/** What ages are counted from, ms. */
export const now = signal(Date.now());
const TICK_MS = 5_000;
/** How long a button says that it has copied, ms. */
const COPIED_MS = 1_500;

export function keepTime(): void {
  setInterval(() => {
    now.value = Date.now();
  }, TICK_MS);
}

/** The head of a page, which gets the focus when the reader comes to it. */
export function Title({ children, above }: { children: ComponentChildren; above?: ComponentChildren }) {
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${head.current?.textContent} – Holdfast`;
    // Whoever types into the search field goes on typing; a page that has just been loaded begins at its top.
    const isTyping = document.activeElement instanceof HTMLInputElement;
    if (!isTyping && history.state !== null) head.current?.focus({ preventScroll: true });
  }, []);
  return (
    <header class="title">
      {above !== undefined && <p class="above">{above}</p>}
      <h1 ref={head} tabIndex={-1}>
        {children}
      </h1>
    </header>
  );
}

/** `3 min ago`, with the time for whoever points at it. */
export function Ago({ time }: { time: string }) {
  const ms = Date.parse(time);
  if (time === "" || Number.isNaN(ms)) return <span>–</span>;
  return (
    <time dateTime={time} title={timeText(time)}>
      {agoText(now.value - ms)} ago
    </time>
  );
}

/** A time of the past: `2026-11-26 14:05:12`, with how long ago that is for whoever points at it. */
export function Time({ time }: { time: string | null }) {
  const ms = Date.parse(time ?? "");
  if (time === null || Number.isNaN(ms)) return <span>not known</span>;
  return (
    <time dateTime={time} title={`${durationText(now.value - ms)} ago`}>
      {timeText(time)}
    </time>
  );
}

export function Mark({ state, label }: { state: AddressState; label?: string }) {
  const swatch = STATE_SWATCHES[state];
  return (
    <span class="mark">
      <span class={`swatch ${state}`} style={{ background: cssColour(swatch) }} aria-hidden="true">
        {swatch.letter}
      </span>
      {label ?? swatch.label}
    </span>
  );
}

export function Legend({ states = ADDRESS_STATES }: { states?: readonly AddressState[] }) {
  return (
    <p class="legend">
      {states.map((state) => (
        <Mark key={state} state={state} />
      ))}
    </p>
  );
}

export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const isCopied = useSignal(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text());
    isCopied.value = true;
    setTimeout(() => {
      isCopied.value = false;
    }, COPIED_MS);
  };
  return (
    <button type="button" class="copy" onClick={() => void copy()}>
      {isCopied.value ? "Copied" : label}
    </button>
  );
}

export function Command({ children }: { children: string }) {
  return (
    <span class="command">
      <code>{children}</code> <CopyButton text={() => children} label="Copy" />
    </span>
  );
}

export function Failed({ problem }: { problem: Problem }) {
  return (
    <p class="failed" role="alert">
      {problem.message}
      {problem.hint !== "" && <span class="hint">{problem.hint}</span>}
    </p>
  );
}

export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value], index) => (
        <div key={`${index} ${name}`}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

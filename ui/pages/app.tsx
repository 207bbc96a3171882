import { useEffect, useRef } from "preact/hooks";
import type { CheckReport } from "../../admin/admin-api.ts";
import { AddressPage } from "./address.tsx";
import { isConnected, useAnswer } from "./ask.ts";
import type { Ledger } from "./ledger.ts";
import { NetworkPage } from "./network.tsx";
import { NetworksPage } from "./networks.tsx";
import { NodePage, NodesPage } from "./nodes.tsx";
import { CopyButton, Failed, now, Title } from "./parts.tsx";
import { go, linkTo, place } from "./place.ts";
import { SearchPage } from "./search.tsx";
import { signal, useSignals } from "./signal.ts";
import { VmPage, VmsPage } from "./vms.tsx";
import { durationText, timeText } from "./words.ts";

const SECTIONS = [
  ["/", "Networks", ["networks"]],
  ["/vms", "VMs", ["vms"]],
  ["/nodes", "Nodes", ["nodes"]],
  ["/findings", "Findings", ["findings"]],
] as const;

export function App({ ledger }: { ledger: Ledger }) {
  useSignals();
  const isStale = ledger.problem.value !== null;
  useEffect(() => {
    isConnected.value = !isStale;
  }, [isStale]);
  return (
    <>
      <a class="skip" href="#content">
        To the content
      </a>
      <TopBar ledger={ledger} />
      <Notice ledger={ledger} />
      <main id="content" tabIndex={-1} class={isStale ? "stale" : undefined}>
        {ledger.networks.value === null ? <Waiting ledger={ledger} /> : <Page ledger={ledger} />}
      </main>
    </>
  );
}

function Page({ ledger }: { ledger: Ledger }) {
  const { parts, query } = place.value;
  const [section = "networks", ...names] = parts;
  const key = parts.join("/");
  if (section === "networks") {
    const [network, word, address] = names;
    if (network === undefined) return <NetworksPage ledger={ledger} />;
    if (word === "addresses" && address !== undefined)
      return <AddressPage key={key} ledger={ledger} network={network} address={address} />;
    return <NetworkPage key={`${key} ${query.get("at") ?? ""}`} ledger={ledger} name={network} at={query.get("at")} />;
  }
  if (section === "vms") {
    const [namespace, name] = names;
    if (namespace === undefined || name === undefined) return <VmsPage ledger={ledger} />;
    return <VmPage key={key} ledger={ledger} name={`${namespace}/${name}`} />;
  }
  if (section === "nodes") {
    const [name] = names;
    return name === undefined ? <NodesPage ledger={ledger} /> : <NodePage key={key} ledger={ledger} name={name} />;
  }
  if (section === "findings") return <FindingsPage ledger={ledger} />;
  if (section === "search") return <SearchPage ledger={ledger} text={query.get("q") ?? ""} />;
  return (
    <>
      <Title>There is no such page</Title>
      <p class="empty">
        <a href="/">All networks</a>
      </p>
    </>
  );
}

function TopBar({ ledger }: { ledger: Ledger }) {
  const [section = "networks"] = place.value.parts;
  const hello = ledger.hello.value;
  return (
    <header class="bar">
      <a class="brand" href="/">
        Holdfast
      </a>
      <nav aria-label="Pages">
        {SECTIONS.map(([href, label, sections]) => (
          <a
            key={href}
            href={href}
            aria-current={(sections as readonly string[]).includes(section) ? "page" : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      <SearchField />
      <span class="source" title={hello === null ? "" : `Holdfast ${hello.version}`}>
        {hello === null ? "" : hello.kind === "node" ? `on node ${hello.node}` : hello.from}
      </span>
      <label class="theme">
        <span class="hidden">Colours</span>
        <select
          value={theme.value}
          onChange={(event) => applyTheme((event.currentTarget as HTMLSelectElement).value as Theme)}
        >
          {THEMES.map((one) => (
            <option key={one} value={one}>
              {one === "system" ? "colours: system" : one}
            </option>
          ))}
        </select>
      </label>
    </header>
  );
}

function SearchField() {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const isTyping = (event.target as Element).closest("input, select, textarea") !== null;
      if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const { parts, query } = place.value;
  const isSearching = parts[0] === "search";
  const type = (text: string) => go(linkTo.search(text), { replace: isSearching });
  return (
    // biome-ignore lint/a11y/useSemanticElements: <search> is younger than some browsers
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        // The first of what is listed, which is what was typed where there is such a thing.
        document.querySelector<HTMLAnchorElement>(".links a, tbody td a")?.click();
      }}
    >
      <input
        ref={field}
        type="search"
        placeholder="Search  /"
        aria-label="Search: address, MAC, VM, pod, claim, node, container, network"
        autoComplete="off"
        spellcheck={false}
        value={isSearching ? (query.get("q") ?? "") : ""}
        onInput={(event) => type((event.currentTarget as HTMLInputElement).value)}
      />
    </form>
  );
}

/** How old what is shown is, and why. */
function Notice({ ledger }: { ledger: Ledger }) {
  const problem = ledger.problem.value;
  const isEmpty = ledger.networks.value === null;
  useEffect(() => {
    if (problem === null) return;
    const timer = setInterval(() => {
      now.value = Date.now();
    }, 1_000);
    return () => clearInterval(timer);
  }, [problem === null]);
  if (problem === null) return null;
  const age = durationText(Math.max(0, now.value - Date.parse(problem.since)));
  return (
    <aside class="notice" aria-label="Connection">
      <strong>
        <span role="status">Not connected</span> for {age}.
        {!isEmpty && ` What you see is from ${timeText(problem.since)}.`}
      </strong>
      <span class="hint">
        {sentence(problem.message)} {sentence(problem.hint)}
      </span>
    </aside>
  );
}

function sentence(text: string): string {
  return text === "" ? "" : `${text[0]?.toUpperCase()}${text.slice(1)}.`;
}

function Waiting({ ledger }: { ledger: Ledger }) {
  if (ledger.problem.value !== null) return <p class="empty">Nothing has arrived yet.</p>;
  return <p class="empty">Reading …</p>;
}

/** By the system, or by hand. */
const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const KEY = "holdfast-theme";

function stored(): Theme {
  const found = THEMES.find((one) => one === localStorage.getItem(KEY));
  return found ?? "system";
}

const theme = signal<Theme>(stored());

export function applyTheme(next: Theme = theme.value): void {
  theme.value = next;
  if (next === "system") {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEY, next);
    document.documentElement.dataset.theme = next;
  }
}

/** `check` reads everything, and watches what may pass: it is not asked more often than so, ms. */
const CHECK_MS = 120_000;

function FindingsPage({ ledger }: { ledger: Ledger }) {
  const turn = Math.floor(now.value / CHECK_MS);
  const answer = useAnswer<CheckReport>("/v1/check", `${turn} ${ledger.problem.value === null}`).value;
  return (
    <>
      <Title>Findings</Title>
      {answer.kind === "asking" && <p class="progress">Checking …</p>}
      {answer.kind === "failed" && <Failed problem={answer.problem} />}
      {answer.kind === "answered" && <Report report={answer.body} />}
    </>
  );
}

function Report({ report: { findings, notes = [], counted } }: { report: CheckReport }) {
  return (
    <>
      {findings.length === 0 && <p class="well">Nothing is wrong. {counted !== undefined && countedText(counted)}</p>}
      <ul class="findings">
        {findings.map(({ invariant, message, hint }) => (
          <li key={`${invariant} ${message}`}>
            <strong>{invariant}</strong> {message}
            {hint !== "" && (
              <span class="hint">
                {hint} <CopyButton text={() => hint} label="Copy" />
              </span>
            )}
          </li>
        ))}
      </ul>
      {notes.length > 0 && <h2>Notes</h2>}
      <ul class="findings">
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </>
  );
}

function countedText({ allocations, networks }: NonNullable<CheckReport["counted"]>): string {
  return `${allocations.toLocaleString("en")} allocations on ${networks} networks were checked.`;
}

import type { CheckReport } from "../../admin/admin-api.ts";
import { useAnswer } from "./ask.ts";
import type { Ledger } from "./ledger.ts";
import { CopyButton, Failed, now, Title } from "./parts.tsx";

/** `check` reads everything, and watches what may pass: it is not asked more often than so, ms. */
const CHECK_MS = 120_000;

export function FindingsPage({ ledger }: { ledger: Ledger }) {
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

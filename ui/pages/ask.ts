import { useEffect } from "preact/hooks";
import type { Problem } from "../../admin/following.ts";
import { fetchWithToken } from "./server/token.ts";
import { type Signal, signal, useSignal } from "./signal.ts";

/** Whether the source answers: what failed is asked again once it does. */
export const isConnected = signal(true);

export type Answer<T> =
  | { readonly kind: "asking" }
  | { readonly kind: "answered"; readonly body: T }
  | { readonly kind: "failed"; readonly problem: Problem };

/** Asked again when the path or `again` changes; until then the last answer stays. null as path: nothing is asked. */
export function useAnswer<T>(path: string | null, again: unknown = null): Signal<Answer<T>> {
  const answers = useAnswers<T>(path === null ? null : [path], again);
  const answer = useSignal<Answer<T>>({ kind: "asking" });
  useEffect(() => {
    const { value } = answers;
    answer.value = value.kind === "answered" ? { kind: "answered", body: value.body[0] as T } : value;
  }, [answers.value]);
  return answer;
}

/** The same for several questions at once: all of their answers, or why one failed. */
export function useAnswers<T>(paths: readonly string[] | null, again: unknown = null): Signal<Answer<readonly T[]>> {
  const answer = useSignal<Answer<readonly T[]>>({ kind: "asking" });
  useEffect(() => {
    if (paths === null) return;
    const life = new AbortController();
    void Promise.all(paths.map((path) => ask<T>(path, life.signal))).then((found) => {
      if (!life.signal.aborted) answer.value = together(found);
    });
    return () => life.abort();
  }, [paths?.join(" "), again, isConnected.value]);
  return answer;
}

function together<T>(answers: readonly Answer<T>[]): Answer<readonly T[]> {
  const bodies: T[] = [];
  for (const answer of answers) {
    if (answer.kind !== "answered") return answer;
    bodies.push(answer.body);
  }
  return { kind: "answered", body: bodies };
}

async function ask<T>(path: string, signal: AbortSignal): Promise<Answer<T>> {
  try {
    const response = await fetchWithToken(`/api${path}`, signal);
    const body = await response.json();
    return response.ok ? { kind: "answered", body } : { kind: "failed", problem: body };
  } catch (error) {
    return { kind: "failed", problem: { message: "holdfast ui does not answer", hint: String(error) } };
  }
}

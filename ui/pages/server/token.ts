/**
 * What shows holdfast ui that this page is its reader's. It comes in the fragment of the printed URL, which browsers
 * send to nobody, and is kept for this tab and this origin, which includes the port: a server receives it only where
 * this page asks with it.
 */
const KEY = "holdfast-token";
const IN_FRAGMENT = /^#t=([\w-]+)$/;
/** To the other tabs of this origin. */
const WHO_KNOWS = "who knows the token?";

let known = sessionStorage.getItem(KEY);
const waiting = new Set<(token: string) => void>();

/** Looks where the token can be: in the URL, which then loses it, in this tab, or in another one. */
export function findToken(): void {
  takeFromUrl();
  // The URL of a later holdfast ui, opened in this tab, can be another place of the same document.
  addEventListener("hashchange", () => {
    if (takeFromUrl()) location.reload();
  });
  // A link that was opened in a new tab, or a path that the reader has typed there.
  const tabs = new BroadcastChannel(KEY);
  tabs.addEventListener("message", ({ data }: MessageEvent<string>) => {
    if (data === WHO_KNOWS) {
      if (known !== null) tabs.postMessage(known);
    } else if (known === null) keep(data);
  });
  if (known === null) tabs.postMessage(WHO_KNOWS);
}

/** The answer to a question with the token, for which it waits. */
export async function fetchWithToken(path: string, signal: AbortSignal | null = null): Promise<Response> {
  const token = known ?? (await new Promise<string>((resolve) => waiting.add(resolve)));
  return fetch(path, { headers: { authorization: `Bearer ${token}` }, signal });
}

/** A server does not know it. */
export function forgetToken(): void {
  known = null;
  sessionStorage.removeItem(KEY);
}

function takeFromUrl(): boolean {
  const [, given] = IN_FRAGMENT.exec(location.hash) ?? [];
  if (given === undefined) return false;
  history.replaceState(history.state, "", location.pathname + location.search);
  keep(given);
  return true;
}

function keep(token: string): void {
  known = token;
  sessionStorage.setItem(KEY, token);
  for (const resolve of waiting) resolve(token);
  waiting.clear();
}

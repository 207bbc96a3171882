import { signal } from "./signal.ts";

/** By the system, or by hand. */
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "holdfast-theme";

function stored(): Theme {
  const found = THEMES.find((one) => one === localStorage.getItem(KEY));
  return found ?? "system";
}

export const theme = signal<Theme>(stored());

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

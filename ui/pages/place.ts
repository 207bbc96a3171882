import { signal } from "./signal.ts";

/** Where the reader is: the URL is the state, so that everything can be linked. */
export interface Place {
  /** Decoded parts of the path. */
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

function here(): Place {
  const parts = location.pathname.split("/").filter((part) => part !== "");
  return { parts: parts.map(decode), query: new URLSearchParams(location.search) };
}

/** A path that a person wrote may have a percent sign that means nothing. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = signal<Place>(here());

export function go(href: string, options: { readonly replace?: boolean } = {}): void {
  if (options.replace) history.replaceState({}, "", href);
  else history.pushState({}, "", href);
  place.value = here();
}

/** Links within the page do not load it again. */
export function followLinks(): void {
  addEventListener("popstate", () => {
    place.value = here();
  });
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest("a");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (link === null || !isPlain || link.origin !== location.origin || link.target !== "") return;
    // A place within the page is the browser's own business.
    if (link.hash !== "") return;
    event.preventDefault();
    go(link.pathname + link.search);
    scrollTo(0, 0);
  });
}

const path = (...parts: string[]) => `/${parts.map(encodeURIComponent).join("/")}`;

export const linkTo = {
  network: (name: string) => path("networks", name),
  part: (name: string, subnet: string) => `${path("networks", name)}?at=${encodeURIComponent(subnet)}`,
  address: (network: string, address: string) => path("networks", network, "addresses", address),
  /** A name may have slashes; a namespace has none. */
  vm: (namespacedName: string) => {
    const [namespace = "", ...name] = namespacedName.split("/");
    return path("vms", namespace, name.join("/"));
  },
  node: (name: string) => path("nodes", name),
  search: (text: string) => `/search?q=${encodeURIComponent(text)}`,
};

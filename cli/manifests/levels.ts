import type { CST } from "yaml";

/**
 * Whether a document of YAML is nested deeper than so many levels. Asked before it is composed, which recurses:
 * thousands of brackets would overflow the stack.
 */
export function isNestedDeeper(document: CST.Token, levelsMax: number): boolean {
  const open: { readonly token: CST.Token | null | undefined; readonly level: number }[] = [
    { token: document, level: 0 },
  ];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { token, level } = next;
    if (token == null) continue;
    if (level > levelsMax) return true;
    if (token.type === "document") open.push({ token: token.value, level });
    else if ("items" in token)
      for (const { key, value } of token.items as CST.CollectionItem[])
        open.push({ token: key, level: level + 1 }, { token: value, level: level + 1 });
  }
  return false;
}

import { badRequest } from "./failure.ts";
import { LABEL_VALUE, VALUE_RULE } from "./names.ts";
import type { KubeObject } from "./objects.ts";

export type Filter = (object: KubeObject) => boolean;

const KEY = "[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?";
const EXISTS = new RegExp(`^(!?)\\s*(${KEY})$`);
const EQUALS = new RegExp(`^(${KEY})\\s*(==|=|!=)\\s*(.*)$`);
const IN = new RegExp(`^(${KEY})\\s+(in|notin)\\s+\\(([^()]*)\\)$`);

/** What a label selector selects. Throws Failure for one that the server could not parse. */
export function labelFilter(selector: string): Filter {
  const terms = splitOutsideParentheses(selector).map(termOf);
  return (object) => terms.every((term) => term(object.metadata.labels ?? {}));
}

function termOf(text: string): (labels: Readonly<Record<string, string>>) => boolean {
  const exists = EXISTS.exec(text);
  if (exists) {
    const [, not, key = ""] = exists;
    return (labels) => Object.hasOwn(labels, key) === (not === "");
  }
  const equals = EQUALS.exec(text);
  if (equals) {
    const [, key = "", , operator, value = ""] = equals;
    if (!LABEL_VALUE.test(value))
      throw badRequest(
        `unable to parse requirement: invalid label value: ${JSON.stringify(value)}: at key: ${JSON.stringify(key)}: ${VALUE_RULE}`,
      );
    return (labels) => (labels[key] === value) === (operator !== "!=");
  }
  const among = IN.exec(text);
  if (among) {
    const [, key = "", , operator, list = ""] = among;
    const values = list.split(",").map((value) => value.trim());
    return (labels) =>
      operator === "in" ? values.includes(labels[key] ?? "\0") : !values.includes(labels[key] ?? "\0");
  }
  throw badRequest(`unable to parse requirement: ${text}`);
}

/** Splits `a in (b,c),d` at its second comma only. */
function splitOutsideParentheses(text: string): string[] {
  return text
    .split(/,(?![^(]*\))/)
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** Fields that a resource's objects can be selected by, and how each is read. */
export type SelectableFields = Readonly<Record<string, (object: KubeObject) => string>>;

/** What a field selector selects, and the one name that it may be about. Throws Failure. */
export function fieldFilter(selector: string, fields: SelectableFields): { filter: Filter; name: string | null } {
  let name: string | null = null;
  const terms = selector
    .split(",")
    .filter((part) => part !== "")
    .map((part): Filter => {
      const [, key = "", operator, value = ""] = /^([^=!]+)(==|=|!=)(.*)$/.exec(part) ?? [];
      if (operator === undefined) throw badRequest(`invalid selector: '${part}'; can't understand '${part}'`);
      const read = fields[key];
      if (read === undefined) throw badRequest(`field label not supported: ${key}`);
      if (key === "metadata.name" && operator !== "!=") name = value;
      return (object) => (read(object) === value) === (operator !== "!=");
    });
  return { filter: (object) => terms.every((term) => term(object)), name };
}

import type { FastifyInstance } from "fastify";
import { isObject } from "../ipam/definition/definition-keys.ts";
import { RefusalError, refuse } from "../ipam/refusals.ts";

/** Of what is shown of a path in an error: its end. */
const PATH_CHARS_MAX = 200;

/** JSON bodies are read at once, by `bodyReader`. */
export function addJsonParser(server: FastifyInstance): void {
  const read = bodyReader(server);
  server.addContentTypeParser<string>("application/json", { parseAs: "string" }, (_request: unknown, body: string) =>
    read(body),
  );
}

/** JSON bodies are handed on as text: reading one of some MB takes time that its route answers for. */
export function addTextParser(server: FastifyInstance): void {
  server.addContentTypeParser<string>(
    "application/json",
    { parseAs: "string" },
    async (_request: unknown, body: string) => body,
  );
}

/** As Fastify does, which refuses names that alter objects in JavaScript; but its error shows where such a name is. */
export function bodyReader(server: FastifyInstance): (body: string) => Promise<unknown> {
  const parse = server.getDefaultJsonParser("error", "error");
  return (body) =>
    new Promise((resolve, reject) => {
      // It looks at no request.
      void parse(undefined as never, body, (error, value) =>
        error ? reject(refusalOfName(body) ?? error) : resolve(value),
      );
    });
}

/** null: the body is not JSON at all. */
function refusalOfName(body: string): RefusalError | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  const path = findForbidden(value);
  if (path === null) return null;
  const key = path.length <= PATH_CHARS_MAX ? path : `…${path.slice(-PATH_CHARS_MAX)}`;
  const remedy = "no object has a key of that name, which would alter objects in JavaScript: remove it";
  return new RefusalError(refuse("REQUEST_INVALID", { key, value: "refused", remedy }));
}

/** Without recursion: a body may be nested a million levels deep. */
function findForbidden(body: unknown): string | null {
  const open: [path: string, value: unknown][] = [["", body]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [path, value] = next;
    if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) open.push([`${path}[${index}]`, one]);
    } else if (isObject(value)) {
      for (const [name, one] of Object.entries(value)) {
        const at = path === "" ? name : `${path}.${name}`;
        if (name === "__proto__") return at;
        if (name === "constructor" && isObject(one) && Object.hasOwn(one, "prototype")) return `${at}.prototype`;
        open.push([at, one]);
      }
    }
  }
  return null;
}

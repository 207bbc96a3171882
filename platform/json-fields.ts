/**
 * The fields of an object that another process has written. Every method throws an Error that names the field when it
 * is of another type. By hand, since all ports of a node are read at each of their changes.
 */
export class JsonFields {
  readonly #fields: Readonly<Record<string, unknown>>;

  constructor(value: unknown) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("expected an object");
    this.#fields = value as Readonly<Record<string, unknown>>;
  }

  get(name: string): unknown {
    return this.#fields[name];
  }

  /** `accept`: whether a text is valid. */
  string(name: string, accept: (text: string) => boolean = () => true): string {
    const value = this.#fields[name];
    if (typeof value !== "string" || !accept(value)) throw expected(name, "a valid string");
    return value;
  }

  stringOrNull(name: string): string | null {
    return this.#fields[name] === null ? null : this.string(name);
  }

  integer(name: string, min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER): number {
    const value = this.#fields[name];
    if (!Number.isInteger(value) || (value as number) < min || (value as number) > max)
      throw expected(name, "a whole number within its bounds");
    return value as number;
  }

  list<T>(name: string, read: (one: unknown) => T): T[] {
    const value = this.#fields[name];
    if (!Array.isArray(value)) throw expected(name, "a list");
    return value.map((one) => read(one));
  }

  strings(name: string): string[] {
    return this.list(name, (one) => {
      if (typeof one !== "string") throw expected(name, "strings");
      return one;
    });
  }

  /** Keys with what `read` makes of their values. */
  entries<T>(name: string, read: (one: unknown) => T): [string, T][] {
    const value = this.#fields[name];
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw expected(name, "an object");
    return Object.entries(value).map(([key, one]) => [key, read(one)]);
  }
}

function expected(name: string, what: string): Error {
  return new Error(`${name}: expected ${what}`);
}

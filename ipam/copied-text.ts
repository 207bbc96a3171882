/** A part of a text keeps all of it in memory, unless it is copied. */
export function copyOf(part: string): string {
  return JSON.parse(JSON.stringify(part)) as string;
}

export function excerpt(text: string, charsMax: number): string {
  return text.length > charsMax ? copyOf(`${text.slice(0, charsMax)}…`) : text;
}

export function shortened<T extends object>(values: T, charsMax: number): T {
  const isLong = (value: unknown) => typeof value === "string" && value.length > charsMax;
  if (!Object.values(values).some(isLong)) return values;
  const texts = Object.entries(values).map(([name, value]) => [
    name,
    isLong(value) ? excerpt(value as string, charsMax) : value,
  ]);
  return Object.fromEntries(texts) as T;
}

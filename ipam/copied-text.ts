/** A part of a text keeps all of it in memory, unless it is copied. */
export function copyOf(part: string): string {
  return JSON.parse(JSON.stringify(part)) as string;
}

/** The beginning of a text that may be very long, for a message. */
export function excerpt(text: string, charsMax: number): string {
  return text.length > charsMax ? copyOf(`${text.slice(0, charsMax)}…`) : text;
}

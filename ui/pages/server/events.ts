export interface StreamEvent {
  readonly event: string;
  readonly data: string;
}

/** Whole events in their order, whatever pieces they arrive in, until the stream ends or breaks; comments are none. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<StreamEvent> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let text = "";
  for (;;) {
    const { value } = await reader.read().catch(() => ({ value: undefined }));
    if (value === undefined) return;
    // An end can have come in two pieces.
    let from = Math.max(0, text.length - 1);
    text += decoder.decode(value, { stream: true });
    let start = 0;
    for (;;) {
      const end = text.indexOf("\n\n", from);
      if (end === -1) break;
      const event = parseEvent(text.slice(start, end));
      if (event !== null) yield event;
      start = end + 2;
      from = start;
    }
    text = text.slice(start);
  }
}

function parseEvent(text: string): StreamEvent | null {
  const fields = new Map(
    text.split("\n").map((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon), line.slice(colon + 2)];
    }),
  );
  const [event, data] = [fields.get("event"), fields.get("data")];
  return event === undefined || data === undefined ? null : { event, data };
}

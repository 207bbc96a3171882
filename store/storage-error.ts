/** An error of SQLite about the file or the disk below it, as opposed to one of a single statement. */
export function isStorageError(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return (
    typeof code === "string" && /^SQLITE_(FULL|IOERR|CORRUPT|NOTADB|READONLY|CANTOPEN|PROTOCOL|NOMEM|BUSY)/.test(code)
  );
}

/**
 * Does the work for every item, for at most `countMax` of them at once, in the order of the items. After a failure
 * nothing more is started. Resolves, or rejects with the first failure, when all started work has ended.
 */
export async function severalAtOnce<T>(
  items: Iterable<T>,
  countMax: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items[Symbol.iterator]();
  const failures: unknown[] = [];
  const worker = async () => {
    try {
      for (let next = queue.next(); !next.done && failures.length === 0; next = queue.next()) await work(next.value);
    } catch (error) {
      failures.push(error);
    }
  };
  await Promise.all(Array.from({ length: countMax }, worker));
  if (failures.length > 0) throw failures[0];
}

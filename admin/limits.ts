export const ITEMS_DEFAULT = 500;
/** Items in one answer at most: some 3 MB of allocations with one attachment each. */
export const ITEMS_MAX = 5_000;
/** A day: anything older is no longer in transition. */
export const GRACE_SECONDS_MAX = 86_400;
/** Free addresses that are named as the next ones, by default and at most. */
export const FREE_COUNT_DEFAULT = 5;
export const FREE_COUNT_MAX = 1_000;

/** Items in one answer when nobody says how many. */
export const ITEMS_DEFAULT = 500;
/** Items in one answer at most: some 3 MB of allocations with one attachment each. */
export const ITEMS_MAX = 5_000;
/** A day: what is older than that is no longer on its way. */
export const GRACE_SECONDS_MAX = 86_400;

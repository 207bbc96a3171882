/** The release, as `holdfast version` and the daemon tell it. Kept equal to package.json by a test. */
export const VERSION = "1.0.0-rc.1";

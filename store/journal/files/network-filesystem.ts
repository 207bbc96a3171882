/** File systems on which SQLite's locks and log do not work (statfs f_type, linux/magic.h, their own sources). */
const NETWORK_FILESYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, "nfs"],
  [0x517b, "smb"],
  [0xff534d42, "cifs"],
  [0xfe534d42, "smb2"],
  [0x00c36400, "ceph"],
  [0x5346414f, "afs"],
  [0x01021997, "9p"],
  [0x0bd00bd0, "lustre"],
  [0x01161970, "gfs2"],
  [0x7461636f, "ocfs2"],
]);

/** The name of a network file system; null: it is none of them. `type`: f_type of statfs. */
export function networkFilesystemName(type: number): string | null {
  return NETWORK_FILESYSTEMS.get(type >>> 0) ?? null;
}

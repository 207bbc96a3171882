import { lstatSync, readFileSync, readlinkSync } from "node:fs";

/** As many as the kernel follows in one path. */
const LINKS_MAX = 40;
/** The first PID namespace of a kernel has this number always (PROC_PID_INIT_INO). */
const FIRST_PID_NAMESPACE = "pid:[4026531836]";

/**
 * Whether something is at an absolute path for process 1 of the machine, which sees what container runtimes see: a
 * unit's sandbox or a container's root hides files from this process alone. null: it cannot be told. `proc` as in
 * proc(5). See docs/decisions/0090.
 */
export function pathExistsForInit(path: string, proc = "/proc"): boolean | null {
  try {
    const inFirst = readlinkSync(`${proc}/self/ns/pid`) === FIRST_PID_NAMESPACE;
    // In a container's own PID namespace, process 1 is the container's; in a system container it is its systemd.
    if (!inFirst && readFileSync(`${proc}/1/comm`, "utf8").trim() !== "systemd") return null;
    return existsForOne(proc, path) ?? (inFirst && hasFirstMounts(proc) ? existsUnder("", path) : null);
  } catch {
    return null;
  }
}

/** null: what process 1 sees may not be looked at. */
function existsForOne(proc: string, path: string): boolean | null {
  try {
    lstatSync(`${proc}/1/root/.`);
    return existsUnder(`${proc}/1/root`, path);
  } catch {
    return null;
  }
}

/** Whether this process has the mounts that the kernel began with, as kernel threads have them. */
function hasFirstMounts(proc: string): boolean {
  if (readFileSync(`${proc}/2/comm`, "utf8").trim() !== "kthreadd") return false;
  return readlinkSync(`${proc}/2/ns/mnt`) === readlinkSync(`${proc}/self/ns/mnt`);
}

/** Follows links by hand: the kernel would follow an absolute one, such as /var/run, into the root of this process. */
function existsUnder(root: string, path: string): boolean {
  const rest = namesOf(path);
  const at: string[] = [];
  let links = 0;
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    if (name === "..") {
      at.pop();
      continue;
    }
    const here = [root, ...at, name].join("/");
    const found = lstatSync(here, { throwIfNoEntry: false });
    if (found === undefined) return false;
    if (!found.isSymbolicLink()) {
      at.push(name);
      continue;
    }
    links += 1;
    if (links > LINKS_MAX) throw new Error(`${path} has too many links`);
    const target = readlinkSync(here);
    if (target.startsWith("/")) at.length = 0;
    rest.unshift(...namesOf(target));
  }
  return true;
}

function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

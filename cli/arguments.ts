import { type Command, InvalidArgumentError } from "commander";

/** In any notation, with or without a prefix length. The daemon parses it; here only what cannot be one is refused. */
export function addressArgument(text: string): string {
  const [address = "", prefix, ...rest] = text.split("/");
  // Loaded when it is needed: most commands have no address.
  const family = process.getBuiltinModule("node:net").isIP(address);
  if (family === 0) throw new InvalidArgumentError(`Expected an IPv4 or IPv6 address, such as 10.0.0.5 or fd10::5.`);
  const bits = family === 4 ? 32 : 128;
  if (rest.length > 0 || (prefix !== undefined && !(/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits))) {
    throw new InvalidArgumentError(`Expected a prefix length from 0 to ${bits} after the slash.`);
  }
  return address;
}

export function wholeArgument(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
    }
    return value;
  };
}

/** `namespace/name`, or a bare name in the namespace of another option. */
export function splitName(
  text: string,
  namespace: string | undefined,
): { namespace: string | undefined; name: string } {
  const slash = text.indexOf("/");
  return slash < 0 ? { namespace, name: text } : { namespace: text.slice(0, slash), name: text.slice(slash + 1) };
}

export interface NamespaceChoice {
  readonly namespace?: string;
  readonly allNamespaces?: true;
}

/** `-n` and `-A`, as kubectl has them; of all namespaces by default. `what`: in `-n`'s help. */
export function withNamespaces(command: Command, what: string): Command {
  return command
    .option("-n, --namespace <name>", `${what}; default: of all`)
    .option("-A, --all-namespaces", "of all namespaces, as without -n")
    .hook("preAction", () => {
      const { namespace, allNamespaces } = command.opts<NamespaceChoice>();
      if (namespace !== undefined && allNamespaces)
        command.error("error: -n is one namespace and -A all of them: give one of both");
    });
}

/** `-f`, repeatable. */
export function withFiles(command: Command): Command {
  return command.option(
    "-f, --filename <file>",
    "YAML or JSON manifests: a file, a directory of them, or - for standard input; may be given again",
    (path: string, before: string[] | undefined) => [...(before ?? []), path],
  );
}

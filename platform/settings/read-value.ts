import { HOST_PORT_EXPECTED, type HostPort, isHostPort, parseHostPort } from "../host-port.ts";
import type { Setting } from "./setting.ts";

export type SettingValue = string | number | readonly string[] | HostPort | null;

/** The value of a setting as given: text of a flag or variable, or a YAML value. undefined: it is invalid. */
export function readValue(setting: Setting, given: unknown): SettingValue | undefined {
  switch (setting.type) {
    case "number": {
      const value = Number(given);
      return Number.isInteger(value) && value >= setting.min && value <= setting.max ? value : undefined;
    }
    case "choice":
      return setting.values.find((value) => value === given);
    case "address":
      if (typeof given !== "string") return undefined;
      if (setting.orOff && given === "off") return null;
      return isHostPort(given) ? parseHostPort(given) : undefined;
    case "files":
    case "directories":
      return pathsOf(given);
    default: {
      const text = setting.type === "group" && typeof given === "number" ? String(given) : given;
      return typeof text === "string" && (text !== "" || setting.orEmpty) ? text : undefined;
    }
  }
}

function pathsOf(given: unknown): string[] | undefined {
  const paths: unknown = typeof given === "string" ? given.split(",").map((one) => one.trim()) : given;
  if (!Array.isArray(paths) || paths.length === 0) return undefined;
  return paths.every((path) => typeof path === "string" && path.startsWith("/")) ? paths : undefined;
}

/** The form that readValue accepts, for messages. */
export function expected(setting: Setting): string {
  switch (setting.type) {
    case "number":
      return `expected a whole number from ${setting.min} to ${setting.max}`;
    case "choice":
      return `expected ${setting.values.slice(0, -1).join(", ")} or ${setting.values.at(-1)}`;
    case "address":
      return `${HOST_PORT_EXPECTED}${setting.orOff ? ", or off" : ""}`;
    case "files":
    case "directories":
      return "expected absolute paths, with commas between them";
    default:
      return "expected a string that is not empty";
  }
}

import { PROCESSES, type Process, type ProcessName } from "../../platform/settings/processes.ts";
import { defaultOf, type Setting } from "../../platform/settings/setting.ts";

const LINE_CHARS_MAX = 120;

/** Which page lists the settings of a process. */
export const SETTINGS_PAGES: Readonly<Record<ProcessName, string>> = {
  daemon: "docs/operations.md",
  controller: "docs/kubernetes-controller.md",
  metadata: "docs/operations.md",
  "metadata-net": "docs/operations.md",
};

/** The page with the lists between its marks as the settings are now. Throws when the marks of a list are not there. */
export function withSettings(page: string, text: string): string {
  let result = text;
  for (const name of Object.keys(PROCESSES) as ProcessName[]) {
    if (SETTINGS_PAGES[name] !== page) continue;
    const begin = `<!-- settings of ${name}: make format writes them from platform/settings/${name}.ts -->\n`;
    const end = `<!-- end of the settings of ${name} -->\n`;
    const from = result.indexOf(begin);
    const to = result.indexOf(end);
    if (from < 0 || to < from) throw new Error(`${page} has no marks for the settings of ${name}`);
    result = `${result.slice(0, from)}${begin}\n${settingsText(name)}\n${result.slice(to)}`;
  }
  return result;
}

function settingsText(name: ProcessName): string {
  const { settings }: Process = PROCESSES[name];
  const lines = (hidden: boolean) =>
    Object.entries(settings)
      .filter(([, setting]) => (setting.hidden ?? false) === hidden)
      .map(([key, setting]) => wrap(`- ${describe(key, setting)}`))
      .join("");
  const hidden = lines(true);
  return hidden === ""
    ? lines(false)
    : `${lines(false)}\nAdvanced settings; the defaults suit nearly every installation:\n\n${hidden}`;
}

function describe(name: string, setting: Setting): string {
  const standard = defaultOf(setting);
  const shown = setting.otherwise === undefined ? `\`${standard}\`` : standard;
  const value = standard === "" ? "" : ` (default: ${shown})`;
  const text = setting.more === undefined ? setting.meaning : `${setting.meaning}. ${setting.more}.`;
  return `\`${name}\`${value}: ${text}`;
}

/** One item of a list, in lines that every editor shows. */
function wrap(item: string): string {
  const lines: string[] = [];
  let line = "";
  for (const word of item.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > LINE_CHARS_MAX) {
      lines.push(line);
      line = ` `;
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return `${[...lines, line].join("\n")}\n`;
}

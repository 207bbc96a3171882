/**
 * A value as YAML, of which JSON is a part but for some characters: PyYAML, which reads it in the guest, refuses a text
 * with C1 controls or byte order marks in it and breaks lines at others, so these are escaped. Ends with a line break.
 */
export function yamlText(value: unknown): string {
  const json = JSON.stringify(value, null, 2);
  const escaped = json.replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return `${escaped}\n`;
}

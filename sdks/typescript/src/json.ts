// Values as JSON text.

/** JSON text that the journal accepts; undefined for a value that JSON cannot express. A lone surrogate, which cutting a text leaves behind, is replaced. */
export function encodeJson(value: unknown, replacer?: (key: string, value: unknown) => unknown): string | undefined {
  const text = JSON.stringify(value, replacer);
  // JSON.stringify escapes lone surrogates only.
  return text?.includes("\\ud") ? text.replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, "$1\ufffd") : text;
}

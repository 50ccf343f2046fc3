import type { HeaderList } from "../../domain/event.ts";

/**
 * Headers as one text, a line each: `name: value`. A search term holds no white space, so finding it in this text
 * is finding it in a line. A line feed inside a value (HTTP knows none) is kept as a folded line.
 */
export function toHeaderText(headers: HeaderList): string {
  let text = "";
  for (const [name, value] of headers)
    text += `${name}: ${value.includes("\n") ? value.replaceAll("\n", "\n\t") : value}\n`;
  return text;
}

export function fromHeaderText(text: string): HeaderList {
  if (text === "") return [];
  return text
    .slice(0, -1)
    .split(/\n(?!\t)/)
    .map((line) => {
      const at = line.indexOf(": ");
      return [line.slice(0, at), line.slice(at + 2).replaceAll("\n\t", "\n")] as const;
    });
}

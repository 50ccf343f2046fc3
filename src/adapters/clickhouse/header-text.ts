import type { HeaderList } from "../../domain/event.ts";
import type { TabSeparatedWriter } from "./tab-separated.ts";

/**
 * Headers as one text, a line each: `name: value`. A search term holds no white space, so finding it in this text
 * is finding it in a line. A line feed inside a value (HTTP knows none) is kept as a folded line.
 */
export function writeHeaderText(
  out: Pick<TabSeparatedWriter, "piece" | "endString">,
  headers: HeaderList,
): void {
  for (const [name, value] of headers) {
    out.piece(name);
    out.piece(": ");
    out.piece(value.includes("\n") ? value.replaceAll("\n", "\n\t") : value);
    out.piece("\n");
  }
  out.endString();
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

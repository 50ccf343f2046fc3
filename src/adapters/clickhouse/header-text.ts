import type { HeaderList } from "../../domain/event.ts";
import type { TabSeparatedWriter } from "./tab-separated.ts";

/**
 * Writes headers as one text, a `name: value` line each. A search term contains no white space, so a match in this text
 * is a match within a line. A line feed inside a value (HTTP allows none) is kept as a folded line.
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

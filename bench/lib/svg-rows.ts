import { text } from "./svg-chart.ts";

export interface LatencyRow {
  readonly label: string;
  readonly p50Ms: number;
  readonly p95Ms: number;
  /** The p95 to stay under; null: no aim was set. */
  readonly aimMs: number | null;
}

const WIDTH = 760;
const LEFT = 230;
const RIGHT = 70;
const TOP = 58;
const ROW = 24;
const DECADES = [1, 10, 100, 1_000, 10_000];

/** Draws a row per question on a logarithmic axis: a bar up to the p95, its darker part up to the p50, a line at the aim. */
export function drawLatencies(
  title: string,
  rows: readonly LatencyRow[],
  footnote: string,
): string {
  const most = Math.log10(Math.max(...rows.map((row) => row.p95Ms), 10) * 1.3);
  const x = (ms: number): number =>
    LEFT + ((WIDTH - LEFT - RIGHT) * Math.log10(Math.max(1, ms))) / most;
  const bottom = TOP + rows.length * ROW;
  const parts = [
    text(20, 26, title, 'font-size="16" font-weight="bold"'),
    text(
      20,
      44,
      "bar: p95 in ms, dark part: p50, line: aim for the p95",
      'font-size="11" fill="#555"',
    ),
    ...DECADES.filter((ms) => Math.log10(ms) <= most).map(
      (ms) =>
        `<line x1="${x(ms)}" x2="${x(ms)}" y1="${TOP - 6}" y2="${bottom}" stroke="#ddd"/>` +
        text(x(ms), bottom + 14, `${ms}`, 'font-size="11" text-anchor="middle"'),
    ),
  ];
  for (const [index, { label, p50Ms, p95Ms, aimMs }] of rows.entries()) {
    const y = TOP + index * ROW;
    const isMissed = aimMs !== null && p95Ms > aimMs;
    parts.push(
      text(LEFT - 8, y + 14, label, 'font-size="12" text-anchor="end"'),
      `<rect x="${LEFT}" y="${y + 3}" width="${x(p95Ms) - LEFT}" height="14" fill="${isMissed ? "#f2cc60" : "#79c0ff"}"/>`,
      `<rect x="${LEFT}" y="${y + 3}" width="${x(p50Ms) - LEFT}" height="14" fill="${isMissed ? "#d29922" : "#1f6feb"}"/>`,
      text(x(p95Ms) + 5, y + 14, p95Ms.toFixed(p95Ms < 10 ? 1 : 0), 'font-size="11"'),
    );
    if (aimMs !== null)
      parts.push(
        `<line x1="${x(aimMs)}" x2="${x(aimMs)}" y1="${y}" y2="${y + 20}" stroke="#cf222e" stroke-width="2"/>`,
      );
  }
  const height = bottom + 44;
  parts.push(text(20, height - 10, footnote, 'font-size="11" fill="#555"'));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>${parts.join("\n")}</svg>\n`;
}

import type { Spread } from "./stats.ts";

export interface BarGroup {
  readonly label: string;
  readonly bars: readonly { readonly series: string; readonly value: Spread }[];
}

export interface BarChart {
  readonly title: string;
  readonly unit: string;
  readonly groups: readonly BarGroup[];
  readonly footnote: string;
}

const COLORS = ["#8c9bab", "#1f6feb", "#d29922", "#3fb950"];
const WIDTH = 720;
const HEIGHT = 400;
const LEFT = 70;
const TOP = 56;
const BOTTOM = 84;

/** Draws grouped bars of medians with whiskers from minimum to maximum. */
export function drawBars(chart: BarChart): string {
  const most = Math.max(...chart.groups.flatMap((group) => group.bars.map((bar) => bar.value.max)));
  const plotHeight = HEIGHT - TOP - BOTTOM;
  const y = (value: number): number => TOP + plotHeight * (1 - value / (most * 1.08));
  const groupWidth = (WIDTH - LEFT - 20) / chart.groups.length;
  const parts = [
    text(LEFT, 24, chart.title, 'font-size="16" font-weight="bold"'),
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => {
      const value = most * share;
      return (
        `<line x1="${LEFT}" x2="${WIDTH - 20}" y1="${y(value)}" y2="${y(value)}" stroke="#ddd"/>` +
        text(LEFT - 6, y(value) + 4, formatCount(value), 'font-size="11" text-anchor="end"')
      );
    }),
    text(LEFT, TOP - 10, chart.unit, 'font-size="11" fill="#555"'),
  ];
  chart.groups.forEach((group, index) => {
    const barWidth = (groupWidth * 0.7) / group.bars.length;
    const left = LEFT + index * groupWidth + groupWidth * 0.15;
    group.bars.forEach((bar, position) => {
      const x = left + position * barWidth;
      const middle = x + barWidth / 2;
      const { median, min, max } = bar.value;
      parts.push(
        `<rect x="${x + 2}" y="${y(median)}" width="${barWidth - 4}" height="${y(0) - y(median)}" fill="${COLORS[position % COLORS.length] ?? ""}"/>`,
        `<line x1="${middle}" x2="${middle}" y1="${y(min)}" y2="${y(max)}" stroke="#000"/>`,
        text(middle, y(max) - 5, formatCount(median), 'font-size="11" text-anchor="middle"'),
      );
    });
    const label = 'font-size="12" text-anchor="middle"';
    parts.push(text(left + groupWidth * 0.35, y(0) + 18, group.label, label));
  });
  const series = chart.groups[0]?.bars.map((bar) => bar.series) ?? [];
  series.forEach((name, index) => {
    const x = LEFT + index * 220;
    const top = HEIGHT - 44;
    parts.push(
      `<rect x="${x}" y="${top}" width="12" height="12" fill="${COLORS[index % COLORS.length] ?? ""}"/>`,
      text(x + 18, top + 11, name, 'font-size="12"'),
    );
  });
  parts.push(text(LEFT, HEIGHT - 10, chart.footnote, 'font-size="11" fill="#555"'));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>${parts.join("")}</svg>\n`;
}

/** Returns a text element with its content escaped. */
export function text(x: number, y: number, content: string, attributes: string): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x}" y="${y}" ${attributes}>${escaped}</text>`;
}

function formatCount(value: number): string {
  return value >= 1_000 ? `${(value / 1_000).toFixed(1)}k` : value.toFixed(value < 10 ? 2 : 0);
}

// Small bars beside numbers. Their meaning is in the numbers, so screen readers skip them.

import { svg } from "./dom.js";

const share = (part) => `${(100 * part).toFixed(2)}%`;

function bar(name, ...children) {
  return svg("svg", { class: `bar ${name}`, height: 12, "aria-hidden": "true" }, ...children);
}

/** A bar of a share between 0 and 1. */
export function shareBar(part) {
  const track = svg("rect", { class: "track", width: "100%", y: 3, height: 6, rx: 3 });
  return bar("share", track, svg("rect", { class: "fill one", width: share(part), y: 3, height: 6, rx: 3 }));
}

/** One bar cut into parts: objects with a `value` and a `tone`. */
export function stackedBar(parts) {
  const total = parts.reduce((sum, { value }) => sum + value, 0);
  let start = 0;
  const pieces = parts.map(({ value, tone }) => {
    const place = { x: share(start / (total || 1)), width: share(value / (total || 1)) };
    start += value;
    return svg("rect", { class: `fill ${tone}`, height: 12, ...place });
  });
  return bar("stacked", svg("rect", { class: "track", width: "100%", height: 12 }), ...pieces);
}

/** An interval with its mean, on a scale from `from` to `to`. */
export function intervalBar({ low, mean, high }, from, to) {
  const at = (value) => share((value - from) / (to - from || 1));
  const width = share((high - low) / (to - from || 1));
  return bar(
    "interval",
    svg("line", { class: "track", x1: 0, x2: "100%", y1: 6, y2: 6 }),
    svg("rect", { class: "span", x: at(low), width, y: 2, height: 8, rx: 4 }),
    svg("circle", { class: "dot one", cx: at(mean), cy: 6, r: 3 }),
  );
}

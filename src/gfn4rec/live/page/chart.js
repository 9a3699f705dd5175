// A line chart over time: axes, a shaded interval, marks, and values at the pointer or by arrow keys.

import { element, setText, svg } from "./dom.js";
import { clock, decimal } from "./format.js";
import { linear, nearest, runs, timeAxis, valueAxis } from "./scale.js";

const HEIGHT = 220; // pixels, unless a chart is given another
const TOP = 20;
const RIGHT = 14;
const BOTTOM = 26;
const LETTER = 7; // pixels, of tick labels
const MANY = 16; // marks, which as whole lines would hide the curve
const GAP = 3; // buckets that may be missing before the line is cut
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

const line = (x1, y1, x2, y2, name) => svg("line", { x1, y1, x2, y2, class: name });
const text = (x, y, name, content) => svg("text", { x, y, class: name }, content);
const pair = (x, y) => `${x.toFixed(1)},${y.toFixed(1)}`;

/** Return a small picture of how a series is drawn, for the legend. */
function swatch(name) {
  const middle = line(1, 5, 17, 5, `line ${name}`);
  const drawn = {
    band: svg("rect", { width: 18, height: 10, rx: 2, class: "band one" }),
    mark: line(9, 0, 9, 10, "mark"),
  };
  return svg("svg", { class: "swatch", width: 18, height: 10, "aria-hidden": "true" }, drawn[name] ?? middle);
}

/**
 * A chart in a `figure`. Options: `label` says what it shows; `series` are objects with a `name`, a `tone` (one, two),
 * `value(bucket)`, and perhaps `interval(bucket)`; `format(value)`; `note(bucket)` is a remark on a bucket;
 * `intervalName` and `markName` stand in the legend; `fromZero` and `least` are those of `valueAxis`; `height`.
 */
export class LineChart {
  constructor(figure, options) {
    this.options = options;
    this.height = options.height ?? HEIGHT;
    this.buckets = [];
    this.marks = [];
    this.cursor = null; // the start of the bucket whose values the legend shows
    this.plot = svg("g");
    this.pointer = svg("g", { "aria-hidden": "true" });
    const role = { role: "slider", tabindex: 0, "aria-label": `${options.label}, by time`, "aria-valuemin": 0 };
    this.picture = svg("svg", { class: "plot", height: this.height, ...role }, this.plot, this.pointer);
    this.empty = element("p", { class: "empty" });
    this.legend = this.#legend();
    figure.append(this.legend, this.picture, this.empty);
    this.#listen();
    new ResizeObserver(() => this.#draw()).observe(figure);
  }

  /** Draw buckets (`start`, `seconds`, values) and marks (`time`, `label`, `title`); or say why there is nothing. */
  update(buckets, marks, emptyText) {
    const hasData = buckets.length > 0;
    this.buckets = buckets;
    this.marks = marks;
    setText(this.empty, hasData ? "" : emptyText);
    this.empty.hidden = hasData;
    this.legend.toggleAttribute("hidden", !hasData);
    this.picture.toggleAttribute("hidden", !hasData); // an SVG element has no property `hidden`
    this.#draw();
  }

  #legend() {
    const { series, intervalName, markName } = this.options;
    const key = (name, look, value) => element("span", { class: "key" }, swatch(look), `${name} `, value);
    this.values = series.map(() => element("b"));
    this.intervalValue = element("b");
    this.when = element("span", { class: "when" });
    this.markKey = markName ? key(markName, "mark", "") : null;
    return element(
      "div",
      { class: "legend" },
      ...series.map((each, n) => key(each.name, each.tone, this.values[n])),
      intervalName ? key(intervalName, "band", this.intervalValue) : null,
      this.markKey,
      this.when,
    );
  }

  #listen() {
    const follow = (event) => {
      const x = event.clientX - this.picture.getBoundingClientRect().left;
      this.#select(nearest(this.buckets.map((bucket) => this.x(bucket.start + bucket.seconds / 2)), x));
    };
    const leave = () => this.#select(null);
    this.picture.addEventListener("pointermove", follow);
    this.picture.addEventListener("pointerdown", follow);
    this.picture.addEventListener("pointerleave", leave);
    this.picture.addEventListener("blur", leave);
    this.picture.addEventListener("focus", () => this.#select(this.#index()));
    this.picture.addEventListener("keydown", (event) => {
      if (event.key in KEYS && this.buckets.length > 0) {
        event.preventDefault();
        this.#select(Math.min(Math.max(this.#index() + KEYS[event.key], 0), this.buckets.length - 1));
      }
    });
  }

  /** Return the number of the selected bucket, or of the latest one. */
  #index() {
    const found = this.buckets.findIndex((bucket) => bucket.start === this.cursor);
    return found >= 0 ? found : this.buckets.length - 1;
  }

  #select(index) {
    this.cursor = index === null ? null : (this.buckets[index]?.start ?? null);
    this.#showValues();
  }

  #draw() {
    const width = this.picture.getBoundingClientRect().width;
    if (this.buckets.length === 0 || width === 0) {
      return;
    }
    const axis = this.#axis();
    const labels = axis.ticks.map((tick) => decimal(tick, axis.digits));
    const left = 10 + LETTER * Math.max(...labels.map((label) => label.length));
    const last = this.buckets.at(-1);
    const [start, end] = [this.buckets[0].start, last.start + last.seconds];
    this.x = linear(start, end, left, width - RIGHT);
    this.y = linear(axis.low, axis.high, this.height - BOTTOM, TOP);
    const seen = this.marks.filter(({ time }) => time >= start && time <= end);
    this.markKey?.toggleAttribute("hidden", seen.length === 0);
    this.plot.replaceChildren(
      ...axis.ticks.flatMap((tick, n) => this.#valueTick(tick, labels[n], left, width)),
      ...this.#timeTicks(start, end, width),
      ...this.#marks(seen),
      ...this.options.series.flatMap((series) => this.#series(series)),
    );
    this.#showValues();
  }

  #axis() {
    const ends = this.options.series.flatMap((series) =>
      this.#points(series).flatMap(({ value, interval }) => [value, interval?.low ?? value, interval?.high ?? value]),
    );
    return ends.length > 0 ? valueAxis(Math.min(...ends), Math.max(...ends), this.options) : valueAxis(0, 1);
  }

  #points(series) {
    return this.buckets
      .map((bucket) => ({
        time: bucket.start + bucket.seconds / 2,
        value: series.value(bucket),
        interval: series.interval?.(bucket) ?? null,
      }))
      .filter(({ value }) => Number.isFinite(value));
  }

  #valueTick(tick, label, left, width) {
    const y = this.y(tick);
    return [line(left, y, width - RIGHT, y, "rule"), text(left - 8, y + 4, "tick end", label)];
  }

  #timeTicks(start, end, width) {
    const { ticks, unit } = timeAxis(start, end, Math.max(2, Math.floor(width / 90)));
    return ticks.flatMap((tick) => {
      const x = this.x(tick);
      const label = clock(tick, unit(tick));
      const place = Math.min(x, width - (LETTER * label.length) / 2); // within the picture
      const bottom = this.height - BOTTOM;
      return [line(x, bottom, x, bottom + 4, "axis"), text(place, this.height - 6, "tick middle", label)];
    });
  }

  /** Draw marks as upright lines, or as short ones if they are many; labels only where there is room. */
  #marks(marks) {
    const bottom = marks.length > MANY ? TOP + 4 : this.height - BOTTOM;
    let free = -Infinity;
    return marks.flatMap(({ time, label, title }) => {
      const x = this.x(time);
      const drawn = svg("g", {}, line(x, TOP - 4, x, bottom, "mark"), svg("title", {}, title));
      if (x < free) {
        return [drawn];
      }
      free = x + LETTER * label.length + 8;
      return [drawn, text(x, TOP - 8, "tick middle", label)];
    });
  }

  #series(series) {
    const seconds = this.buckets[0].seconds;
    const pieces = runs(this.#points(series), (GAP + 0.5) * seconds);
    const bands = pieces.map((points) => this.#band(points, series.tone));
    return [...bands, ...pieces.map((points) => this.#line(points, series.tone))];
  }

  #band(points, tone) {
    const known = points.filter(({ interval }) => interval);
    const upper = known.map(({ time, interval }) => pair(this.x(time), this.y(interval.high)));
    const lower = known.map(({ time, interval }) => pair(this.x(time), this.y(interval.low))).reverse();
    const isAlone = known.length === 1;
    return svg("polygon", { points: [...upper, ...lower].join(" "), class: `band ${tone}${isAlone ? " alone" : ""}` });
  }

  #line(points, tone) {
    const places = points.map(({ time, value }) => [this.x(time), this.y(value)]);
    if (places.length === 1) {
      return svg("circle", { cx: places[0][0], cy: places[0][1], r: 3, class: `dot ${tone}` });
    }
    return svg("polyline", { points: places.map(([x, y]) => pair(x, y)).join(" "), class: `line ${tone}` });
  }

  /** Show the values of the selected bucket, or of the latest one, in the legend and to screen readers. */
  #showValues() {
    const index = this.#index();
    const bucket = this.buckets[index];
    if (!bucket) {
      return;
    }
    const { series, format, interval, note } = this.options;
    series.forEach((each, n) => setText(this.values[n], format(each.value(bucket))));
    setText(this.intervalValue, interval?.(bucket) ?? "");
    setText(this.when, `${this.cursor === null ? "latest: " : ""}${clock(bucket.start)}, ${note(bucket)}`);
    const spoken = series.map((each, n) => `${each.name} ${this.values[n].textContent}`);
    const attributes = {
      "aria-valuemax": this.buckets.length - 1,
      "aria-valuenow": index,
      "aria-valuetext": [this.when.textContent, ...spoken, this.intervalValue.textContent].filter(Boolean).join("; "),
    };
    Object.entries(attributes).forEach(([name, value]) => this.picture.setAttribute(name, value));
    this.#drawCursor(bucket);
  }

  #drawCursor(bucket) {
    if (this.cursor === null || this.cursor !== bucket.start) {
      this.pointer.replaceChildren();
      return;
    }
    const x = this.x(bucket.start + bucket.seconds / 2);
    const dots = this.options.series
      .filter((series) => Number.isFinite(series.value(bucket)))
      .map((series) => svg("circle", { cx: x, cy: this.y(series.value(bucket)), r: 4, class: `dot ${series.tone}` }));
    this.pointer.replaceChildren(line(x, TOP, x, this.height - BOTTOM, "cursor"), ...dots);
  }
}

// What changes over time: reward, coverage and latency; and the reward of each version.

import { intervalBar } from "./bars.js";
import { LineChart } from "./chart.js";
import { byId, element } from "./dom.js";
import { counted, decimal, integer, milliseconds, moment, range } from "./format.js";
import { LongList } from "./long_list.js";
import { meanInterval } from "./scale.js";

const slates = (bucket) => counted(bucket.slates, "slate");

function rewardChart() {
  return new LineChart(byId("chart-reward"), {
    label: "Mean reward per slate",
    height: 300,
    series: [{ name: "mean reward", tone: "one", value: (bucket) => bucket.mean, interval: meanInterval }],
    format: (value) => decimal(value),
    interval: (bucket) => range(meanInterval(bucket)?.low, meanInterval(bucket)?.high),
    intervalName: "95 % interval",
    markName: "version promoted",
    note: slates,
  });
}

function coverageChart() {
  return new LineChart(byId("chart-coverage"), {
    label: "Coverage, the number of different items in slates",
    series: [{ name: "different items", tone: "one", value: (bucket) => bucket.coverage }],
    format: integer,
    fromZero: true,
    least: 1,
    note: slates,
  });
}

function latencyChart() {
  return new LineChart(byId("chart-latency"), {
    label: "Latency in milliseconds",
    series: [
      { name: "p50", tone: "one", value: (bucket) => bucket.p50_ms ?? NaN },
      { name: "p99", tone: "two", value: (bucket) => bucket.p99_ms ?? NaN },
    ],
    format: milliseconds,
    fromZero: true,
    note: (bucket) => counted(bucket.requests, "request"),
  });
}

/** Return a mark for each version that is or was promoted. */
function promotions({ versions, now }) {
  return versions.versions
    .filter(({ promoted }) => promoted !== null)
    .sort((one, other) => one.promoted - other.promoted)
    .map(({ version, promoted }) => ({
      time: promoted,
      label: `v${version}`,
      title: `Version ${version}: ${moment(promoted, now)}`,
    }));
}

/** Show the reward of each version, with intervals on one scale. */
class RewardByVersion {
  constructor() {
    this.list = new LongList(byId("by-version"), 6, "versions");
    this.shown = "";
  }

  update(status) {
    const { by_version: versions } = status;
    const text = JSON.stringify([versions, status.versions.promoted, status.wait]);
    if (text === this.shown) {
      return;
    }
    this.shown = text;
    const ends = versions.flatMap(({ low, high, mean }) => [low ?? mean, high ?? mean]).filter(Number.isFinite);
    const [from, to] = [Math.min(...ends), Math.max(...ends)];
    byId("by-version-table").hidden = versions.length === 0;
    const empty = byId("by-version-empty");
    empty.hidden = versions.length > 0;
    empty.textContent = waitingText(status, "No version has a reward yet");
    const newestFirst = [...versions].sort((one, other) => other.version - one.version);
    this.list.update(newestFirst.map((row) => this.#row(row, from, to, status.versions.promoted)), () => false);
  }

  #row(row, from, to, promoted) {
    const { version, mean, low, high } = row;
    const interval = { mean, low: low ?? mean, high: high ?? mean };
    const name = element("th", { scope: "row" }, integer(version));
    if (version === promoted) {
      name.append(" ", element("span", { class: "badge good" }, "serves"));
    }
    return element(
      "tr",
      {},
      name,
      element("td", { class: "number" }, integer(row.slates)),
      element("td", { class: "number" }, decimal(mean)),
      element("td", { class: "spread" }, intervalBar(interval, from, to), element("small", {}, range(low, high))),
    );
  }
}

/** Say why there is nothing yet: slates become samples only when their time is over. */
export function waitingText(status, text) {
  return `${text}: slates close ${integer(status.wait)} s after they are shown.`;
}

/** All charts and the table of versions. */
export class History {
  constructor() {
    this.reward = rewardChart();
    this.coverage = coverageChart();
    this.latency = latencyChart();
    this.byVersion = new RewardByVersion();
  }

  update(status) {
    const closed = status.reward.filter((bucket) => bucket.slates > 0);
    const marks = promotions(status);
    this.reward.update(closed, marks, waitingText(status, "No reward yet"));
    this.coverage.update(closed, [], waitingText(status, "No slate has closed yet"));
    this.latency.update(status.latency.filter((bucket) => bucket.requests > 0), [], "No requests yet.");
    this.byVersion.update(status);
  }
}

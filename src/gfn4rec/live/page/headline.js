// The head of the page: what is served, whether it works, and how fast.

import { byId, element, setText } from "./dom.js";
import { counted, decimal, integer, milliseconds, range, rate, span } from "./format.js";

/** Return the value, the label and the remark of each tile. */
function tiles(status) {
  const { requests, versions } = status;
  const promoted = versions.promoted;
  const serving = status.by_version.find(({ version }) => version === promoted);
  return {
    slates: [integer(status.decisions), `${counted(requests.total, "request")} since the start`],
    rate: [rate(requests.per_second), "in the last minute"],
    p50: [milliseconds(requests.p50_ms), "half of the answers are faster"],
    p99: [milliseconds(requests.p99_ms), `${integer(requests.refused)} refused, ${integer(requests.failed)} failed`],
    reward: serving
      ? [decimal(serving.mean), `95 %: ${range(serving.low, serving.high)}`]
      : ["–", "none of its slates has closed yet"],
  };
}

function showTiles(status) {
  for (const [name, [value, remark]] of Object.entries(tiles(status))) {
    const tile = byId(`tile-${name}`);
    setText(tile.querySelector("dd"), value);
    setText(tile.querySelector(".remark"), remark);
  }
  const promoted = status.versions.promoted;
  setText(byId("tile-reward-label"), promoted === null ? "Reward" : `Reward of version ${promoted}`);
}

function showProblems(status) {
  const list = byId("problems");
  const shown = [...list.children].map((item) => item.textContent);
  if (JSON.stringify(shown) !== JSON.stringify(status.problems)) {
    list.replaceChildren(...status.problems.map((problem) => element("li", {}, problem)));
  }
  list.hidden = status.problems.length === 0;
}

/** Show a word and a colour (good, warn or bad) for the state of the service. */
export function showState(text, tone) {
  const badge = byId("state");
  setText(badge, text);
  badge.className = `badge ${tone}`;
}

export function showHeadline(status) {
  const items = `slates of ${integer(status.slate_size)} from ${counted(status.num_items, "item")}`;
  setText(byId("name"), status.name);
  setText(byId("policy"), status.policy);
  setText(byId("size"), `${items}, ${counted(status.num_users, "known user")}`);
  setText(byId("uptime"), `Started ${span(status.now - status.started)} ago, decisions in ${status.store}`);
  document.title = `${status.is_ready ? "" : "Not ready: "}${status.name} · gfn4rec`;
  const hasProblems = status.problems.length > 0;
  showState(...(status.is_ready ? ["Ready", hasProblems ? "warn" : "good"] : ["Not ready", "bad"]));
  showProblems(status);
  showTiles(status);
}

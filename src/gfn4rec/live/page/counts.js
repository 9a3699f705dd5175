// What becomes of slates and of feedback, and how the learner is.

import { stackedBar } from "./bars.js";
import { byId, element, setText } from "./dom.js";
import { integer, significant, span } from "./format.js";
import { waitingText } from "./history.js";

const SILENCE = 60; // seconds without a report, after which the learner's age is marked

/** Fill a list of numbers: rows of a name, a value and perhaps a tone and a remark. Elements are made once. */
function fill(list, rows) {
  if (list.children.length !== rows.length) {
    list.replaceChildren(
      ...rows.map(([name, , tone, remark]) => {
        const dot = tone ? element("i", { class: `dot ${tone}`, "aria-hidden": "true" }) : null;
        const small = remark ? element("small", {}, remark) : null;
        return element("div", {}, element("dt", {}, dot, name, small), element("dd"));
      }),
    );
  }
  rows.forEach(([, value], n) => setText(list.children[n].lastChild, value));
}

function fillWithBar(list, bar, rows) {
  fill(list, rows.map(([name, value, tone, remark]) => [name, integer(value), tone, remark]));
  bar.replaceChildren(stackedBar(rows.filter(([, , tone]) => tone).map(([, value, tone]) => ({ value, tone }))));
}

function showFeedback(status) {
  const { stored, duplicate, late, unknown } = status.events;
  const empty = byId("feedback-empty");
  empty.hidden = stored + duplicate + late + unknown > 0;
  setText(empty, waitingText(status, "No feedback yet"));
  fillWithBar(byId("feedback"), byId("feedback-bar"), [
    ["Stored", stored, "one", "counts for its slate"],
    ["Duplicate", duplicate, "three", "sent again, changes nothing"],
    ["Late", late, "two", "its slate had closed; kept, not learned from"],
    ["Unknown decision", unknown, "four", "belongs to no slate of this service"],
  ]);
}

function showDecisions(status) {
  fillWithBar(byId("decisions"), byId("decisions-bar"), [
    ["Samples", status.samples, "one", "closed, ready to be learned from"],
    ["Open", status.open, "two", `shown, collecting feedback for ${integer(status.wait)} s`],
    ["Waiting", status.waiting, "three", "not reported as shown yet"],
    ["Expired", status.expired, "four", "never reported as shown"],
  ]);
}

const TONES = { running: "good", starting: "warn", restarting: "warn", stopped: "bad" };

function showLearner({ learner, now }) {
  byId("learner-empty").hidden = learner !== null;
  byId("learner").hidden = learner === null;
  const badge = byId("learner-state");
  badge.hidden = learner === null;
  if (learner === null) {
    return;
  }
  setText(badge, learner.state);
  badge.className = `badge ${TONES[learner.state] ?? "warn"}`;
  const age = learner.updated === null ? NaN : now - learner.updated; // before its first report
  fill(byId("learner"), [
    ["Gradient steps", integer(learner.step)],
    ["Lag", integer(learner.lag), null, "samples that it has not read yet"],
    ["Loss", significant(learner.loss)],
    ["Samples per step", integer(learner.samples_per_step)],
    ["Restarts", integer(learner.restarts)],
    ["Last report", Number.isFinite(age) ? `${span(age)} ago` : "none yet"],
  ]);
  byId("learner").lastChild.classList.toggle("warn", age > SILENCE);
}

export function showCounts(status) {
  showFeedback(status);
  showDecisions(status);
  showLearner(status);
}

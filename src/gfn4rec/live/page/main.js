// Polls the status of the service and shows it.

import { Problem, call } from "./api.js";
import { showCounts } from "./counts.js";
import { byId, setText } from "./dom.js";
import { clock } from "./format.js";
import { showHeadline, showState } from "./headline.js";
import { History } from "./history.js";
import { poll } from "./poll.js";
import { Trial } from "./trial.js";
import { Versions } from "./versions.js";

const PAUSE = 2000; // milliseconds between an answer and the next call
const PATIENCE = 5000; // milliseconds without an answer

const history = new History();
const trial = new Trial();
const versions = new Versions(() => refresh());
let latest = null; // when the service answered last, in seconds since 1970

function show(status, asked) {
  byId("content").hidden = false;
  byId("loading").hidden = true;
  showHeadline(status);
  history.update(status);
  showCounts(status);
  versions.update(status.versions, status.now, asked);
  trial.update(status);
}

/** Say that the service does not answer, and since when; or, without a message, that all is well. */
function showConnection(message) {
  const banner = byId("connection");
  const since = latest === null ? "" : ` The numbers below are of ${clock(latest)}.`;
  setText(banner, message === null ? "" : `${message}${since} Trying again every ${PAUSE / 1000} s.`);
  banner.hidden = message === null;
  document.body.classList.toggle("is-stale", message !== null);
}

async function load() {
  const asked = performance.now();
  try {
    const status = await call("GET", "v1/status", undefined, PATIENCE);
    latest = Date.now() / 1000;
    show(status, asked);
    showConnection(null);
  } catch (error) {
    const isProblem = error instanceof Problem;
    showConnection(isProblem ? error.message : `This page cannot show the answer of the service: ${error.message}.`);
    showState("No answer", "bad");
    document.title = "No answer · gfn4rec";
    if (!isProblem) {
      console.error(error);
    }
  }
}

const refresh = poll(load, PAUSE);

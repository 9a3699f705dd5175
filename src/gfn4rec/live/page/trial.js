// "Try a slate": what the service would show to a user. Such slates are never reported as shown, so that nothing is
// learned from them.

import { call, requestId } from "./api.js";
import { shareBar } from "./bars.js";
import { byId, element, setText } from "./dom.js";
import { counted, decimal, integer, percent } from "./format.js";

const PAUSE = 200; // milliseconds without a key before users are searched
const MOST_ROWS = 12; // of the history

/** Set a slider to the service's own value, until the operator moves it. */
class Slider {
  constructor(name, digits) {
    this.input = byId(name);
    this.output = byId(`${name}-value`);
    this.digits = digits;
    this.isTouched = false;
    this.offered = this.input.valueAsNumber;
    this.input.addEventListener("input", () => {
      this.isTouched = true;
      this.#show();
    });
  }

  get value() {
    return this.isTouched ? this.input.valueAsNumber : this.offered; // which may lie between two steps
  }

  offer(value) {
    if (!this.isTouched) {
      this.offered = value;
      this.input.max = Math.max(Number(this.input.max), value);
      this.input.value = value;
      this.#show();
    }
  }

  #show() {
    setText(this.output, decimal(this.value, this.digits));
  }
}

export class Trial {
  constructor() {
    this.greediness = new Slider("greediness", 2);
    this.rewardWeight = new Slider("reward-weight", 2);
    this.hasPrior = false;
    this.isRunning = false;
    this.timer = null;
    this.search = 0; // number of the latest search; answers to earlier ones are dropped
    const user = byId("user");
    user.addEventListener("focus", () => this.#searchUsers(), { once: true });
    user.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#searchUsers(), PAUSE);
    });
    byId("trial-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#run();
    });
  }

  update(status) {
    this.hasPrior = status.has_prior;
    byId("reward-weight-field").hidden = !status.has_prior;
    this.greediness.offer(status.greediness);
    this.rewardWeight.offer(status.reward_weight);
  }

  async #searchUsers() {
    const search = ++this.search;
    try {
      const text = encodeURIComponent(byId("user").value.trim());
      const { users, total } = await call("GET", `v1/users?search=${text}&limit=20`);
      if (search === this.search) {
        byId("users").replaceChildren(...users.map((value) => element("option", { value })));
        setText(byId("user-hint"), `${counted(total, "known user")} with this text; others are served, too`);
      }
    } catch {
      byId("users").replaceChildren(); // suggestions are a help; the button reports what is wrong
    }
  }

  #body(user) {
    return {
      request_id: requestId(),
      user: user === "" ? null : user,
      greediness: this.greediness.value,
      ...(this.hasPrior ? { reward_weight: this.rewardWeight.value } : {}),
      exclude_seen: byId("exclude-seen").checked,
      activate: "on_shown",
    };
  }

  async #run() {
    if (this.isRunning) {
      return;
    }
    const user = byId("user").value.trim();
    this.#setRunning(true);
    setText(byId("trial-problem"), "");
    const history = user === "" ? null : call("GET", `v1/users/${encodeURIComponent(user)}/history`);
    const [slate, met] = await Promise.allSettled([call("POST", "v1/recommend", this.#body(user)), history]);
    this.#setRunning(false);
    if (slate.status === "rejected") {
      setText(byId("trial-problem"), slate.reason.message);
      return;
    }
    byId("trial-empty").hidden = true;
    byId("trial-result").hidden = false;
    this.#showHistory(user, met);
    this.#showSlate(slate.value);
  }

  /** Not by `disabled`, which would take the focus from the button. */
  #setRunning(value) {
    this.isRunning = value;
    byId("trial-button").setAttribute("aria-disabled", value);
  }

  #showHistory(user, { value, reason }) {
    const met = value?.history ?? [];
    const recent = met.slice(-MOST_ROWS).reverse();
    setText(byId("history-title"), user === "" ? "No user" : `What user ${user} has met`);
    byId("history").replaceChildren(
      ...recent.map(({ item, title, behaviours }) =>
        element(
          "li",
          {},
          element("span", { class: "title" }, spokenTitle({ id: item, title })),
          element("span", { class: "tags" }, ...behaviours.map((name) => element("span", { class: "tag" }, name))),
        ),
      ),
    );
    setText(byId("history-note"), historyNote(user, value, reason, met.length - recent.length));
  }

  #showSlate({ version, items, log_prob: logProb, notes }) {
    const most = Math.max(...items.map(({ probability }) => probability));
    setText(byId("slate-title"), `Slate of version ${version}`);
    byId("slate").replaceChildren(
      ...items.map(({ id, title, probability }) =>
        element(
          "li",
          {},
          element("span", { class: "title" }, spokenTitle({ id, title }), ...(title ? [" ", element("small", {}, id)] : [])),
          element("span", { class: "chance" }, shareBar(probability / (most || 1)), percent(probability)),
        ),
      ),
    );
    const drawn = `Probabilities are those of each item at its place; log-probability of the slate ${decimal(logProb)}.`;
    const paragraphs = [...notes, drawn].map((note) => element("li", {}, note));
    byId("slate-notes").replaceChildren(...paragraphs);
    setText(byId("trial-announcement"), `${counted(items.length, "item")}: ${items.map(spokenTitle).join("; ")}`);
  }
}

const spokenTitle = ({ id, title }) => title ?? `item ${id}`;

/** Say what the list of the history does not show. */
function historyNote(user, value, reason, numEarlier) {
  if (user === "") {
    return "The slate is one for a user without a history.";
  }
  if (reason && reason.status !== 404) {
    return `The history is not available. ${reason.message}`;
  }
  if (!value?.is_known && !value?.history?.length) {
    return "The service does not know this user yet, and serves a slate for a user without a history.";
  }
  if (value.history.length === 0) {
    return "This user has met nothing yet.";
  }
  return numEarlier > 0 ? `Latest first, and ${integer(numEarlier)} before them.` : "Latest first.";
}

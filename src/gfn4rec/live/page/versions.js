// Versions of the policy: which one serves, and the two things an operator can do about it.

import { call } from "./api.js";
import { ask } from "./confirm.js";
import { byId, element, setText } from "./dom.js";
import { clock, integer, moment, significant } from "./format.js";
import { LongList } from "./long_list.js";

const TONES = { promoted: "good", candidate: "plain", retired: "plain", rejected: "bad" };
const LOADING = 60_000; // milliseconds: a version is loaded and probed before the answer

export class Versions {
  /** `onChange` is called after a version was promoted or rolled back. */
  constructor(onChange) {
    this.onChange = onChange;
    this.list = new LongList(byId("versions"), 10, "versions");
    this.shown = "";
    this.changed = -Infinity;
  }

  /** Show the versions of a status that was asked for at `asked` (of performance.now). */
  update(versions, now, asked) {
    const text = JSON.stringify([versions, clock(now, "day")]); // times of other days have their day
    if (text === this.shown || asked < this.changed) {
      return; // the same, or from before a change that is shown already
    }
    this.shown = text;
    this.promoted = versions.promoted;
    const automatic = byId("automatic");
    setText(automatic, `Automatic promotion is ${versions.automatic_promotion ? "on" : "off"}`);
    automatic.className = `badge ${versions.automatic_promotion ? "good" : "warn"}`;
    byId("versions-table").hidden = versions.versions.length === 0;
    byId("versions-empty").hidden = versions.versions.length > 0;
    const rows = versions.versions.map((version) => this.#row(version, now));
    this.list.update(rows, (row) => row.id === `version-${versions.promoted}`);
  }

  #row(version, now) {
    const cell = (label, ...children) => element("td", { role: "cell", "data-label": label }, ...children);
    const parent = version.parent === null ? "–" : integer(version.parent);
    const isServing = version.version === this.promoted;
    const row = element(
      "tr",
      { role: "row", id: `version-${version.version}`, class: isServing ? "current" : null },
      element("th", { role: "rowheader", scope: "row" }, `Version ${version.version}`),
      cell("State", ...this.#state(version)),
      cell("Parent", parent),
      cell("Trained to", integer(version.trained_to_seq)),
      cell("Step", integer(version.step)),
      cell("Loss", significant(version.loss)),
      cell("Made", moment(version.created, now)),
      element("td", { role: "cell", class: "action" }),
    );
    const button = this.#button(version, isServing);
    if (button) {
      row.lastChild.append(button);
    }
    return row;
  }

  #state({ state, reason }) {
    const badge = element("span", { class: `badge ${TONES[state] ?? "plain"}` }, state);
    return reason ? [badge, element("small", {}, reason)] : [badge];
  }

  #button({ version, can_promote: canPromote }, isServing) {
    if (!isServing && !canPromote) {
      return null;
    }
    const [name, id] = isServing ? ["Roll back", "roll-back"] : ["Promote", `promote-${version}`];
    const label = isServing ? `Roll back version ${version}` : `Promote version ${version}`;
    const button = element("button", { type: "button", id, "aria-label": label }, name);
    button.addEventListener("click", () => (isServing ? this.#askRollBack(version) : this.#askPromote(version)));
    return button;
  }

  #askPromote(version) {
    const now = this.promoted === null ? "" : ` It takes the place of version ${this.promoted}.`;
    ask({
      title: `Promote version ${version}?`,
      text: `Slates are then drawn by version ${version}.${now}`,
      action: "Promote",
      opener: `promote-${version}`,
      act: () => this.#change(`v1/versions/${version}/promote`),
    });
  }

  #askRollBack(version) {
    ask({
      title: `Roll back version ${version}?`,
      text:
        "Slates are then drawn by the version that was promoted before it. " +
        "Automatic promotion stops until a version is promoted here.",
      action: "Roll back",
      opener: "roll-back",
      // With its number: if another operator was faster, the service refuses.
      act: () => this.#change(`v1/versions/${version}/rollback`),
    });
  }

  async #change(path) {
    const versions = await call("POST", path, undefined, LOADING);
    this.changed = performance.now();
    this.update(versions, Date.now() / 1000, this.changed);
    setText(byId("versions-notice"), `Version ${versions.promoted} serves now.`);
    this.onChange();
  }
}

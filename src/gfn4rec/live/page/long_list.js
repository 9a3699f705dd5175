// A list of which the first rows are shown, and all at the press of a button.

import { element, replaceKeepingFocus, setText } from "./dom.js";

export class LongList {
  /** Show at most `most` rows in `body`; a button after its table shows all `things`. */
  constructor(body, most, things) {
    this.body = body;
    this.most = most;
    this.things = things;
    this.rows = [];
    this.isWhole = false;
    this.button = element("button", { type: "button", class: "quiet", hidden: true });
    this.button.addEventListener("click", () => {
      this.isWhole = !this.isWhole;
      this.#show();
    });
    body.closest("table").after(this.button);
  }

  /** Replace the rows; those for which `isKept(row)` holds are always shown. */
  update(rows, isKept) {
    this.rows = rows;
    this.isKept = isKept;
    this.#show();
  }

  #show() {
    const shown = this.rows.filter((row, n) => this.isWhole || n < this.most || this.isKept(row));
    replaceKeepingFocus(this.body, ...shown);
    this.button.hidden = this.rows.length <= this.most;
    setText(this.button, this.isWhole ? `Show fewer ${this.things}` : `Show all ${this.rows.length} ${this.things}`);
  }
}

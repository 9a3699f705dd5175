// A question before something is done, in a modal dialog.

import { byId, setText } from "./dom.js";

/**
 * Ask in a dialog. When the operator confirms, await `act()` once and close; if it fails, show its message and let the
 * operator try again or cancel. The focus returns to the element with the id `opener`, even if it is a new one.
 */
export function ask({ title, text, action, opener, act }) {
  const dialog = byId("confirm");
  const yes = byId("confirm-yes");
  const no = byId("confirm-no");
  const problem = byId("confirm-problem");
  let isActing = false;

  function setActing(value) {
    isActing = value;
    yes.disabled = no.disabled = value;
    dialog.setAttribute("aria-busy", value);
  }

  async function confirmed() {
    if (isActing) {
      return;
    }
    setActing(true);
    setText(problem, "");
    try {
      await act();
      setActing(false);
      dialog.close();
    } catch (error) {
      setActing(false);
      setText(problem, error.message);
      no.focus(); // a disabled button loses the focus
    }
  }

  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(yes, action);
  setText(problem, "");
  yes.onclick = confirmed;
  no.onclick = () => dialog.close();
  dialog.oncancel = () => !isActing; // Escape: a handler that returns false holds the dialog open
  dialog.onclose = () => (byId(opener) ?? byId("versions-title")).focus();
  dialog.showModal();
}

// Repeats a call while the page is visible.

/**
 * Await `load()` at once, then again each time after a pause. Nothing is called while the tab is hidden, and at once
 * when it is visible again. Returns a function that calls without waiting for the end of the pause.
 */
export function poll(load, pause) {
  let timer = null;
  let isLoading = false;

  async function turn() {
    clearTimeout(timer);
    if (isLoading) {
      return;
    }
    isLoading = true;
    try {
      await load();
    } finally {
      isLoading = false;
      if (!document.hidden) {
        timer = setTimeout(turn, pause);
      }
    }
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : turn()));
  turn();
  return turn;
}

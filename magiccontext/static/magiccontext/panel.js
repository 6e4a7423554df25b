// What the pages do beyond links and forms: copy a command, move through rows with the keyboard.
// Every page works without this file.

"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // No clipboard without a secure origin: select the text, so that the usual keys copy it.
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
      button.textContent = "Selected";
    }
  });
}

const typing = (target) => target.closest("input, select, textarea, [contenteditable]") !== null;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (event.key === "/") {
    const field = document.querySelector(".filters select");
    if (field !== null) {
      event.preventDefault();
      field.focus();
    }
    return;
  }
  const step = { j: 1, k: -1 }[event.key];
  if (step === undefined) return;
  const rows = [...document.querySelectorAll("table.rows tbody tr")].filter((row) => row.querySelector("a"));
  const here = rows.indexOf(document.activeElement.closest("tr"));
  const row = rows[here === -1 ? 0 : Math.min(Math.max(here + step, 0), rows.length - 1)];
  row?.querySelector("a").focus();
});

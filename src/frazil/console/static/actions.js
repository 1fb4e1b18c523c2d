// A change of a table: a dialog that says what would happen, with the command that does the same; then what has happened.

import { post, tablePath } from "./api.js";
import { command, h } from "./dom.js";
import { openDialog } from "./shell.js";

export function reload() {
  dispatchEvent(new HashChangeEvent("hashchange"));
}

// path: of the change; `${path}/preview` says what it would do, if `preview` draws it. body() is sent with both.
// draw(preview) gives what is shown before; line() the command; done(result) what is shown after.
// check(preview) says what is missing before the button may be pressed, or nothing.
export function openAction({ title, verb, danger = false, table, path, body, preview, form, line, done, check = () => null }) {
  const shown = h("div", { class: "action-body" });
  const same = h("div", { class: "action-same" });
  const note = h("p", { class: "muted", role: "status" });
  const go = h("button", { type: "submit", class: danger ? "primary danger" : "primary", disabled: true }, verb);
  const close = h("button", { type: "button", class: "plain-button", onclick: () => dialog.close() }, "Cancel");
  const buttons = h("div", { class: "action-buttons" }, note, close, go);
  const page = h("form", { class: "action-form" }, h("h2", {}, title), form ?? "", shown, same, buttons);
  const dialog = openDialog(title, "action", page);
  let seen = null, asked = 0;

  const judge = () => {
    const missing = check(seen);
    note.textContent = missing ?? "";
    go.disabled = missing !== null && missing !== undefined;
    same.replaceChildren(h("p", { class: "muted" }, "The same on the command line:"), command(line()));
  };
  // Asks for the preview again; the button waits for it.
  const look = async () => {
    if (!preview) return judge();
    const number = (asked += 1);
    go.disabled = true;
    shown.replaceChildren(h("p", { class: "muted loading" }, "Looking at what this would do…"));
    try {
      const answer = await post(tablePath(table, `${path}/preview`), body());
      if (number !== asked) return;
      seen = answer;
      shown.replaceChildren(...preview(seen, judge).filter(Boolean));
      judge();
    } catch (error) {
      if (number === asked) fail(error);
    }
  };
  const fail = (error) => {
    if (error.status === 401) return dialog.close();
    const again = h("button", { type: "button", class: "plain-button", onclick: () => { dialog.close(); reload(); } }, "Load the page again");
    shown.replaceChildren(h("div", { class: "action-problem", role: "alert" }, h("strong", {}, error.status === 409 ? "The table has changed" : error.title), h("p", {}, error.message), error.status === 409 || error.status >= 500 ? again : ""));
    go.disabled = true;
  };
  page.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = close.disabled = true;
    note.textContent = "Working…";
    try {
      const result = await post(tablePath(table, path), body());
      page.replaceChildren(h("h2", {}, "Done"), h("div", { class: "action-body", role: "status" }, done(result)), h("div", { class: "action-buttons" }, h("button", { type: "button", class: "primary", autofocus: true, onclick: () => dialog.close() }, "Close")));
      page.querySelector(".primary").focus();
      dialog.addEventListener("close", reload);
    } catch (error) {
      note.textContent = "";
      close.disabled = false;
      fail(error);
    }
  });
  look();
  return { look, judge };
}

export function facts(lines) {
  return h("ul", { class: "facts-list" }, lines.filter(Boolean).map((line) => h("li", {}, line)));
}

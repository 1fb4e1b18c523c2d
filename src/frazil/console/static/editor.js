// An editor for SQL: a text field over its own text in colours, with a list of completions.

import { h } from "./dom.js";
import { FUNCTIONS, KEYWORDS, chains, quotedName, tokens } from "./sqltext.js";

const MOST = 9;

// complete.tables: [{parts, name}]; complete.columns(parts): the columns of a table, if they are known by now.
export class Editor {
  constructor({ value, complete, onRun, onChange }) {
    Object.assign(this, { complete, onRun, onChange });
    this.paint = h("pre", { class: "editor-paint", "aria-hidden": "true" });
    this.field = h("textarea", { class: "editor-field", "aria-label": "SQL", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-autocomplete": "list", "aria-controls": "completions", wrap: "off" });
    this.list = h("ul", { id: "completions", class: "completions", role: "listbox", "aria-label": "Completions", hidden: true });
    this.ruler = h("span", { class: "editor-ruler", "aria-hidden": "true" });
    this.element = h("div", { class: "editor" }, this.paint, this.field, this.ruler, this.list);
    this.found = [];
    this.at = 0;
    this.field.value = value;
    this.field.addEventListener("input", () => this.changed(true));
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("scroll", () => this.follow(), { passive: true });
    this.field.addEventListener("blur", () => this.dismiss());
    this.field.addEventListener("click", () => this.dismiss());
    this.changed(false);
  }

  get value() {
    return this.field.value;
  }

  set(value) {
    this.field.value = value;
    this.changed(false);
  }

  // Marks a part of the text, such as where an error is.
  mark(start, end) {
    this.field.focus();
    this.field.setSelectionRange(start, end);
  }

  changed(typed) {
    this.paint.replaceChildren(...tokens(this.value).map((token) => (token.kind === "space" || token.kind === "sign" ? token.text : h("span", { class: `t-${token.kind}` }, token.text))), "\n");
    this.follow();
    this.onChange?.(this.value);
    this.typing = typed;
    if (typed) this.suggest(false);
  }

  follow() {
    this.paint.scrollTop = this.field.scrollTop;
    this.paint.scrollLeft = this.field.scrollLeft;
  }

  key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") this.onRun();
    else if (event.ctrlKey && event.key === " ") this.suggest(true);
    else if (this.list.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.point(this.at + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" || event.key === "Tab") this.accept(this.found[this.at]);
    else if (event.key === "Escape") this.dismiss();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // --- completions ---------------------------------------------------------------------------------------------------

  suggest(asked) {
    const end = this.field.selectionStart;
    const word = /[\p{L}\p{N}_$."]*$/u.exec(this.value.slice(0, end))[0];
    const inside = tokens(this.value).find((token) => token.at < end && end < token.at + token.text.length + (token.kind === "comment" ? 1 : 0));
    if ((inside && ["string", "comment"].includes(inside.kind)) || (!asked && (!word || /^\d/.test(word)))) return this.close();
    const plain = word.replaceAll('"', "").toLowerCase();
    this.start = end - word.length;
    this.found = this.candidates(plain).filter((item) => item.text.toLowerCase() !== word.toLowerCase()).slice(0, MOST);
    if (!this.found.length) return this.close();
    this.list.replaceChildren(
      ...this.found.map((item, at) => h("li", { role: "option", id: `completion-${at}`, onmousedown: (event) => { event.preventDefault(); this.accept(item); } }, h("bdi", {}, item.label), h("small", {}, item.about))),
    );
    this.list.hidden = false;
    this.point(0);
    this.place();
  }

  // What can be completed has changed while someone types.
  refresh() {
    if (this.typing) this.suggest(false);
  }

  candidates(word) {
    const named = chains(this.value).map((chain) => ({ ...chain, columns: this.complete.columns(chain.parts) ?? [] }));
    const [head, dot] = [word.slice(0, word.lastIndexOf(".") + 1), word.includes(".")];
    const found = [];
    for (const chain of named) {
      const owner = (chain.alias ?? chain.parts.at(-1)).toLowerCase();
      if (dot && head !== `${owner}.`) continue;
      for (const column of chain.columns) {
        found.push({ match: dot ? `${owner}.${column.name.toLowerCase()}` : column.name.toLowerCase(), text: (dot ? `${quotedName(chain.alias ?? chain.parts.at(-1))}.` : "") + quotedName(column.name), label: column.name, about: column.type });
      }
    }
    for (const table of this.complete.tables) found.push({ match: table.name.toLowerCase(), also: table.parts.at(-1).toLowerCase(), text: table.parts.map(quotedName).join("."), label: table.name, about: "table" });
    if (!dot) {
      for (const name of KEYWORDS) found.push({ match: name.toLowerCase(), text: name, label: name, about: "" });
      for (const name of FUNCTIONS) found.push({ match: name, text: `${name}(`, label: `${name}()`, about: "function" });
    }
    const seen = new Set();
    const fits = found.filter((item) => (item.match.startsWith(word) || item.also?.startsWith(word)) && !seen.has(item.text) && seen.add(item.text));
    return fits.length || dot ? fits : found.filter((item) => word.length > 1 && item.match.includes(word));
  }

  point(to) {
    this.at = (to + this.found.length) % this.found.length;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === this.at)));
    this.list.children[this.at].scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", `completion-${this.at}`);
  }

  place() {
    const before = this.value.slice(0, this.start).split("\n");
    const style = getComputedStyle(this.field);
    this.ruler.textContent = before.at(-1); // the font need not be of one width
    const x = parseFloat(style.paddingLeft) + this.ruler.offsetWidth - this.field.scrollLeft;
    const y = parseFloat(style.paddingTop) + before.length * parseFloat(style.lineHeight) - this.field.scrollTop;
    this.list.style.left = `${Math.max(0, Math.min(x - 10, this.element.clientWidth - this.list.offsetWidth - 8))}px`;
    this.list.style.top = `${y + 2}px`;
  }

  accept(item) {
    this.field.setRangeText(item.text, this.start, this.field.selectionStart, "end");
    this.close();
    this.changed(false);
  }

  dismiss() {
    this.typing = false;
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.field.removeAttribute("aria-activedescendant");
  }
}

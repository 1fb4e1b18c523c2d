// A table of any number of rows: only those in sight are elements. The keyboard moves a cursor through it.

import { h, s } from "./dom.js";

const OVERSCAN = 8;

export class Grid {
  // columns: {key, title, width (of a grid track), least (px of the grid from which it is shown), right, sort, cell(row)}
  constructor({ label, columns, rowHeight = 36, onOpen, onSort, rowClass, empty, multi }) {
    Object.assign(this, { columns, rowHeight, onOpen, onSort, rowClass, empty, multi });
    this.rows = [];
    this.cursor = -1;
    this.first = this.last = 0;
    this.sort = null;
    this.head = h("div", { class: "grid-head", role: "row", "aria-rowindex": 1 });
    this.body = h("div", { class: "grid-body", role: "rowgroup" });
    this.note = h("div", { class: "grid-empty", hidden: true });
    this.view = h("div", { class: "grid", role: "grid", tabindex: 0, "aria-label": label }, h("div", { role: "rowgroup", class: "grid-top" }, this.head), this.body);
    this.element = h("div", { class: "grid-frame" }, this.view, this.note);
    this.id = `grid-${Math.random().toString(36).slice(2, 8)}`;
    this.view.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.view.addEventListener("keydown", (event) => this.key(event));
    this.view.addEventListener("focus", () => this.cursor < 0 && this.view.matches(":focus-visible") && this.move(0));
    this.body.addEventListener("click", (event) => this.click(event));
    this.resized = new ResizeObserver(() => this.layout());
    this.resized.observe(this.view);
    this.shown = [];
  }

  layout() {
    const width = this.view.clientWidth;
    this.shown = this.columns.filter((column) => !column.least || width >= column.least);
    this.view.style.setProperty("--tracks", this.shown.map((column) => column.width).join(" "));
    this.view.setAttribute("aria-colcount", this.shown.length);
    this.drawHead();
    this.draw(true);
  }

  drawHead() {
    const focused = this.head.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.head.replaceChildren(
      ...this.shown.map((column) => {
        const sorted = this.sort?.key === column.key ? (this.sort.down ? "descending" : "ascending") : null;
        const cell = { class: column.right ? "right" : null, role: "columnheader", "aria-sort": column.sort ? (sorted ?? "none") : null };
        if (!column.sort) return h("div", cell, h("span", { title: column.about }, column.title));
        const mark = s("svg", { class: "arrow", viewBox: "0 0 8 8", "aria-hidden": "true" }, s("path", { d: sorted === "descending" ? "M1 2.5l3 3 3-3" : "M1 5.5l3-3 3 3" }));
        const button = h("button", { type: "button", title: column.about, "data-key": column.key, onclick: () => this.onSort(column) }, column.title, sorted ? mark : null);
        return h("div", cell, button);
      }),
    );
    if (focused) this.head.querySelector(`[data-key="${focused}"]`)?.focus({ preventScroll: true });
  }

  setRows(rows, { sort = this.sort, keep = true } = {}) {
    const current = this.rows[this.cursor];
    this.rows = rows;
    this.sort = sort;
    this.cursor = keep && current !== undefined ? rows.indexOf(current) : -1;
    this.body.style.height = `${rows.length * this.rowHeight}px`;
    this.view.setAttribute("aria-rowcount", rows.length + 1);
    this.note.hidden = rows.length > 0;
    if (!rows.length) this.note.replaceChildren(this.empty?.() ?? "Nothing here");
    this.drawHead();
    this.draw(true);
  }

  schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.draw(false);
    });
  }

  draw(whole) {
    const top = this.view.scrollTop;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - OVERSCAN);
    const count = Math.ceil((this.view.clientHeight || 800) / this.rowHeight) + 2 * OVERSCAN;
    const last = Math.min(this.rows.length, first + count);
    if (!whole && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const drawn = [];
    for (let at = first; at < last; at++) drawn.push(this.drawRow(at));
    this.body.replaceChildren(...(this.overlay ? [this.overlay(first, last)] : []), ...drawn);
    this.point();
  }

  drawRow(at) {
    const row = this.rows[at];
    const marked = this.multi?.(row);
    const element = h(
      "div",
      {
        role: "row", id: `${this.id}-${at}`, "data-at": at, "aria-rowindex": at + 2,
        "aria-selected": marked === undefined ? String(at === this.cursor) : String(marked),
        class: ["grid-row", this.rowClass?.(row), at === this.cursor ? "cursor" : null, marked ? "marked" : null].filter(Boolean).join(" "),
        style: { transform: `translateY(${at * this.rowHeight}px)` },
      },
      this.shown.map((column) => h("div", { role: "gridcell", class: column.right ? "right" : null }, column.cell(row))),
    );
    return element;
  }

  point() {
    if (this.cursor >= this.first && this.cursor < this.last) this.view.setAttribute("aria-activedescendant", `${this.id}-${this.cursor}`);
    else this.view.removeAttribute("aria-activedescendant");
  }

  move(to) {
    if (!this.rows.length) return;
    this.cursor = Math.max(0, Math.min(this.rows.length - 1, to));
    const top = this.cursor * this.rowHeight;
    const head = this.head.offsetHeight;
    const { scrollTop, clientHeight } = this.view;
    if (top < scrollTop) this.view.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + clientHeight - head) this.view.scrollTop = top + this.rowHeight - clientHeight + head;
    this.draw(false);
    // Rows stay the same elements: one that is replaced between the press and the release of a button gets no click.
    for (const row of this.body.querySelectorAll(".grid-row")) {
      const here = Number(row.dataset.at) === this.cursor;
      row.classList.toggle("cursor", here);
      if (!this.multi) row.setAttribute("aria-selected", String(here));
    }
    this.point();
  }

  // Takes the keyboard: the first row, or the next one from where the cursor is.
  step(by) {
    this.move(this.cursor >= 0 ? this.cursor + by : 0);
    this.view.focus({ preventScroll: true });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.view.clientHeight / this.rowHeight) - 2);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      this.move(this.cursor + steps[event.key]);
      this.view.focus({ preventScroll: true }); // from the head of a column, too
    }
    else if (event.key === "Enter" && event.target === this.view && this.cursor >= 0) this.onOpen?.(this.rows[this.cursor], event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  click(event) {
    const element = event.target.closest(".grid-row");
    if (!element || getSelection().toString()) return;
    this.move(Number(element.dataset.at));
    this.view.focus({ preventScroll: true });
    this.onOpen?.(this.rows[this.cursor], event);
  }
}

// The graph as a picture: boxes and lines where the server has laid them out; pan with the pointer, zoom with the wheel.

import { h, s } from "./dom.js";
import { oneLine } from "./format.js";

const WIDE = 196, HIGH = 46, ACROSS = 264, DOWN = 66;
const LEAST_ZOOM = 0.15, LEAST_FIT = 0.7, MOST_ZOOM = 2;
const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

export class Picture {
  // describe(box) gives {level, text}: the dot and the second line of a box
  constructor({ onChoose, describe }) {
    Object.assign(this, { onChoose, describe });
    this.view = { x: 0, y: 0, zoom: 1 };
    this.marker = s("marker", { id: "arrow-head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M1 1l6 3-6 3", class: "arrow-head" }));
    this.lines = s("g", { class: "lines" });
    this.boxes = s("g", { class: "boxes" });
    this.stage = s("g", {}, this.lines, this.boxes);
    this.svg = s("svg", { class: "picture", role: "group", "aria-label": "Graph of pipelines. Arrow keys move from box to box, Enter opens one." }, s("defs", {}, this.marker), this.stage);
    const button = (label, text, act) => h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    this.element = h("div", { class: "picture-frame" }, this.svg, h("div", { class: "zoom" }, button("Zoom in", "+", () => this.zoomBy(1.25)), button("Zoom out", "−", () => this.zoomBy(0.8)), button("Fit to the window", "Fit", () => this.fit())));
    this.elements = new Map();
    this.listen();
  }

  draw(data) {
    this.data = data;
    const shown = data.boxes.filter((box) => box.column !== undefined);
    this.near = new Map(shown.map((box) => [box.id, { before: [], after: [] }]));
    for (const { from, to } of data.lines) {
      this.near.get(from).after.push(to);
      this.near.get(to).before.push(from);
    }
    this.lines.replaceChildren(...data.lines.map((line) => s("path", { d: path(line.points), class: "flow", "data-from": line.from, "data-to": line.to, "marker-end": "url(#arrow-head)" })));
    this.elements = new Map(shown.map((box) => [box.id, this.box(box)]));
    this.boxes.replaceChildren(...this.elements.values());
    this.current = this.elements.has(this.current) ? this.current : shown[0]?.id;
    this.tab();
    this.mark();
  }

  box(box) {
    const { level, text } = this.describe(box);
    const name = cut(oneLine(box.label, 200), 26);
    const about = `${box.kind} ${oneLine(box.label, 200)}${text ? `, ${text}` : ""}`;
    const left = level ? 29 : 15;
    const element = s(
      "g",
      { class: `box ${box.kind}`, role: "button", tabindex: -1, "aria-label": about, "data-id": box.id, transform: `translate(${box.column * ACROSS} ${box.row * DOWN})` },
      s("title", {}, about),
      s("rect", { width: WIDE, height: HIGH, rx: box.kind === "source" ? HIGH / 2 : 8, class: "shape" }),
      level ? s("circle", { cx: 17, cy: 16, r: 4, class: `state ${level}` }) : null,
      s("text", { x: left, y: 20, class: "label" }, name),
      s("text", { x: left, y: 36, class: "detail" }, cut(text || box.kind, 30)),
    );
    element.addEventListener("click", () => !this.dragged && this.choose(box.id));
    return element;
  }

  // --- what is chosen ------------------------------------------------------------------------------------------------

  choose(id) {
    this.current = id;
    this.tab();
    this.onChoose(id);
  }

  // Marks a box with all before and after it, or the boxes of a set.
  mark(id = this.chosen, only = null) {
    this.chosen = id;
    const on = only ?? (id && this.near.has(id) ? this.reach(id) : null);
    this.svg.classList.toggle("dimmed", on !== null);
    for (const [key, element] of this.elements) {
      element.classList.toggle("chosen", key === id);
      element.classList.toggle("on", on?.has(key) ?? false);
      element.setAttribute("aria-pressed", String(key === id));
    }
    for (const line of this.lines.children) line.classList.toggle("on", on !== null && on.has(line.dataset.from) && on.has(line.dataset.to));
  }

  reach(id) {
    const reached = new Set([id]);
    for (const way of ["before", "after"]) {
      const waiting = [id];
      const seen = new Set(waiting);
      while (waiting.length) for (const next of this.near.get(waiting.pop())[way]) if (!seen.has(next)) { seen.add(next); reached.add(next); waiting.push(next); }
    }
    return reached;
  }

  tab() {
    for (const [key, element] of this.elements) element.setAttribute("tabindex", key === this.current ? "0" : "-1");
  }

  // --- pan and zoom --------------------------------------------------------------------------------------------------

  place() {
    const { x, y, zoom } = this.view;
    this.stage.setAttribute("transform", `translate(${x} ${y}) scale(${zoom})`);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!width || !this.data) return;
    const wide = (this.data.columns - 1) * ACROSS + WIDE, high = Math.max(0, this.data.rows - 1) * DOWN + HIGH;
    const zoom = Math.max(LEAST_FIT, Math.min(1.1, (width - 48) / wide, (height - 48) / high));
    this.view = { zoom, x: Math.max(24, (width - wide * zoom) / 2), y: Math.max(24, (height - high * zoom) / 2) };
    this.place();
    if (this.chosen) this.reveal(this.chosen);
  }

  zoomBy(factor, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const zoom = Math.max(LEAST_ZOOM, Math.min(MOST_ZOOM, this.view.zoom * factor));
    const scale = zoom / this.view.zoom;
    this.view = { zoom, x: x - (x - this.view.x) * scale, y: y - (y - this.view.y) * scale };
    this.place();
  }

  // Moves the picture until a box is in sight.
  reveal(id) {
    const box = this.data.boxes.find((each) => each.id === id);
    if (box?.column === undefined) return;
    const { clientWidth: width, clientHeight: height } = this.svg;
    const { zoom } = this.view;
    const left = box.column * ACROSS * zoom + this.view.x, top = box.row * DOWN * zoom + this.view.y;
    this.view.x += Math.max(0, 16 - left) - Math.max(0, left + WIDE * zoom + 16 - width);
    this.view.y += Math.max(0, 16 - top) - Math.max(0, top + HIGH * zoom + 16 - height);
    this.place();
  }

  listen() {
    let from = null;
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { left, top } = this.svg.getBoundingClientRect();
      this.zoomBy(Math.exp(-event.deltaY / 500), event.clientX - left, event.clientY - top);
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = { x: event.clientX - this.view.x, y: event.clientY - this.view.y, at: [event.clientX, event.clientY] };
      this.dragged = false;
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      if (!this.dragged && Math.hypot(event.clientX - from.at[0], event.clientY - from.at[1]) < 4) return;
      if (!this.dragged) this.svg.setPointerCapture(event.pointerId);
      this.dragged = true;
      this.view = { ...this.view, x: event.clientX - from.x, y: event.clientY - from.y };
      this.place();
    });
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, () => (from = null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("focusin", (event) => {
      const id = event.target.dataset?.id;
      if (id && event.target.matches(":focus-visible")) { this.current = id; this.tab(); this.reveal(id); }
    });
    let width = 0;
    new ResizeObserver(() => {
      if (width && this.chosen && this.svg.clientWidth < width) this.reveal(this.chosen); // the panel has opened next to it
      else if (!width) this.fit();
      width = this.svg.clientWidth;
    }).observe(this.svg);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in ARROWS) this.step(...ARROWS[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && this.current) this.choose(this.current);
    else if (event.key === "+" || event.key === "=") this.zoomBy(1.25);
    else if (event.key === "-") this.zoomBy(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Goes to the nearest box in a direction.
  step(across, down) {
    const places = new Map(this.data.boxes.filter((box) => box.column !== undefined).map((box) => [box.id, [box.column * 2, box.row]]));
    const [x, y] = places.get(this.current) ?? [0, 0];
    let best = null, least = Infinity;
    for (const [id, [column, row]] of places) {
      const along = (column - x) * across + (row - y) * down, aside = Math.abs((column - x) * down) + Math.abs((row - y) * across);
      if (along > 0 && along + 3 * aside < least) [best, least] = [id, along + 3 * aside];
    }
    if (best !== null) this.elements.get(best).focus();
  }
}

// A curve through the points that a line passes, from the right edge of a box to the left edge of another.
function path(points) {
  const [x0, y0] = at(points[0]);
  let text = `M${x0 + WIDE} ${y0}`;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = at(points[i]);
    const [beforeX, beforeY] = at(points[i - 1]);
    const middle = (beforeX + WIDE + x) / 2;
    text += `C${middle} ${beforeY} ${middle} ${y} ${x - (i === points.length - 1 ? 3 : 0)} ${y}`;
    if (i < points.length - 1) text += `L${x + WIDE} ${y}`;
  }
  return text;
}

function at([column, row]) {
  return [column * ACROSS, row * DOWN + HIGH / 2];
}

// The end of a name says more than its middle.
function cut(text, most) {
  return text.length <= most ? text : `${text.slice(0, most / 2 - 1)}…${text.slice(-(most / 2))}`;
}

// Elements without markup: text only ever becomes a text node, whatever characters it has.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

const PATHS = {
  tables: "M3 5h14v10H3zM3 8.5h14M8 8.5V15",
  sql: "M4 6l4 4-4 4M10 14h6",
  pipelines: "M3 4h5v4H3zM12 3h5v4h-5zM12 13h5v4h-5zM8 6h2.5M10.5 5H12M10.5 5v10H12",
  plan: "M4 5h6M4 10h6M4 15h4M12.5 13l2 2 3.5-4.5M14 5h3",
  connect: "M8 12l4-4M7 9l-2 2a2.8 2.8 0 0 0 4 4l2-2M13 11l2-2a2.8 2.8 0 0 0-4-4L9 7",
  upkeep: "M4 10a6 6 0 0 1 10.4-4.1M16 10a6 6 0 0 1-10.4 4.1M14.6 3v3.2h-3.2M5.4 17v-3.2h3.2",
  access: "M7 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM10 10h7M15 10v3M12.5 10v2",
  audit: "M5 3h10v14H5zM7.5 7h5M7.5 10h5M7.5 13h3",
  search: "M9 14A5 5 0 1 0 9 4a5 5 0 0 0 0 10zM12.7 12.7L16 16",
  theme: "M10 3a7 7 0 1 0 7 7 5.4 5.4 0 0 1-7-7z",
  keyboard: "M3 6h14v8H3zM6 9h.01M9 9h.01M12 9h.01M14.5 9h.01M7 11.5h6",
  out: "M11 5H5v10h6M9 10h8M14 7l3 3-3 3",
  copy: "M7 7h8v9H7zM5 13V4h8",
  back: "M12 5l-5 5 5 5",
  close: "M6 6l8 8M14 6l-8 8",
};

export function icon(name) {
  return s("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}

// A button that copies the text of an element, or selects it if there is no clipboard.
export function copyButton(line, about) {
  const label = h("span", {}, "copy");
  const button = h("button", { class: "copy", type: "button", "aria-label": about }, icon("copy"), label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line.textContent);
      label.textContent = "copied";
    } catch {
      const range = document.createRange(); // no clipboard: at least it is selected
      range.selectNodeContents(line);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      label.textContent = "selected";
    }
    setTimeout(() => (label.textContent = "copy"), 1500);
  });
  return button;
}

// A line of the terminal that does the same, to be copied.
export function command(text) {
  const line = h("code", {}, text);
  return h("div", { class: "command" }, line, copyButton(line, `Copy: ${text}`));
}

let chosenWarehouse = "";

// The warehouse of the page; commands name it if it is not the one that they act on by themselves.
export function setWarehouse(name, usual) {
  chosenWarehouse = name === null || name === usual ? "" : `--set ${quoted(`catalog.warehouse=${name}`)}`;
}

// A call of frazil on the warehouse of the page.
export function commandLine(verb, words = [], options = "") {
  return line([chosenWarehouse, verb], words, options);
}

// A call of frazil that acts on no warehouse, or names it in its options.
export function serverLine(verb, words = [], options = "") {
  return line([verb], words, options);
}

// Arguments that begin with a dash must not be taken for options.
function line(start, words, options) {
  const dashed = words.some((word) => word.startsWith("-"));
  const parts = dashed ? [options, "--", ...words.map(quoted)] : [...words.map(quoted), options];
  return ["frazil", ...start, ...parts].filter(Boolean).join(" ");
}

// The option of commands about access for a warehouse.
export function warehouseOption(name) {
  return name === "default" ? "" : `--warehouse ${quoted(name)}`;
}

// Quotes an argument of a command as a POSIX shell needs it.
export function quoted(text) {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function problem(error) {
  return h("div", { class: "problem", role: "alert" }, h("strong", {}, error.title ?? "Request failed"), h("p", {}, error.message));
}

// uPlot formats numbers in the language of the browser, and does not load where that is none that Intl knows (Chromium
// in a container says en-US@posix).

try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
}

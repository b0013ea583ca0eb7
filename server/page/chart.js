// Chart of the last minutes: lines without axes, with their newest value and their peak in words.

import { h, say, set } from "./dom.js";
import { SECONDS } from "./rates.js";

const WIDTH = 360;
const HEIGHT = 80;

/** Returns a chart. `lines` are names; `format` returns the text of a value. `update` takes a list of values for each line. */
export function chart({ title, lines, format }) {
  const paths = lines.map((_, place) => h("path", { class: `line line-${place}`, "vector-effect": "non-scaling-stroke" }));
  const legends = lines.map((name, place) => {
    const value = h("b");
    return { value, element: h("li", { class: `line-${place}` }, `${name} `, value) };
  });
  const top = h("span", { class: "peak" });
  const drawing = h(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" },
    h("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    paths,
  );
  const minutes = `${SECONDS / 60} minutes`;
  const element = h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, title, h("ul", {}, legends.map((legend) => legend.element))),
    h("div", { class: "drawing" }, drawing, top, h("span", { class: "from" }, `${minutes} ago`), h("span", { class: "to" }, "now")),
  );
  const update = (series) => {
    const peak = Math.max(0, ...series.flat().filter((value) => value !== null));
    const scale = peak === 0 ? 0 : (HEIGHT - 6) / peak;
    const words = series.map((values, place) => {
      set(paths[place], "d", path(values, scale));
      const newest = values.findLast((value) => value !== null) ?? null;
      say(legends[place].value, format(newest));
      return `${lines[place]} ${format(newest)}`;
    });
    say(top, peak === 0 ? "" : format(peak));
    set(drawing, "aria-label", `${title}: ${words.join(", ")}; at most ${format(peak)} in ${minutes}`);
  };
  return { element, update };
}

/** Returns the path of a line, which is broken where there is no value. */
function path(values, scale) {
  const step = WIDTH / (values.length - 1);
  let isBroken = true;
  return values
    .map((value, place) => {
      if (value === null) {
        isBroken = true;
        return "";
      }
      const [x, y] = [place * step, HEIGHT - 1 - value * scale].map((length) => length.toFixed(1));
      // A value between two gaps is a dot.
      const part = isBroken ? `M${x} ${y}h.1` : `L${x} ${y}`;
      isBroken = false;
      return part;
    })
    .join("");
}

// SPDX-License-Identifier: Apache-2.0
"use strict";
// Charts that can be zoomed: by dygraphs where the page has it, else as SVG. `inUnit` gives the text of a value, and
// `tell` is told where the pointer is (at) and which steps are wanted (zoomed). Both take the same lines:
// {colour, pattern, isFaint, steps, values}, and give {zoom(range or null), show(lines, log), redraw(), resize()}.
const charts = (() => {
  const PATTERNS = [null, [6, 4], [2, 3]];  // of strokes
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** How many significant digits tell `value` from one that is `step` away; step 0: as many as usual. */
  function digits(value, step, usual) {
    const size = Math.abs(value);
    return step > 0 && size > 0 ? Math.min(15, Math.max(usual, Math.ceil(Math.log10(size / step)) + 1)) : usual;
  }

  /** 0.001234, 12300, 1.2e+9; "" of what is no number. `step`: the distance to its neighbours on an axis. */
  function number(value, step = 0) {
    if (typeof value !== "number" || !isFinite(value)) return "";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(digits(value, step, 3) - 1);
    return String(parseFloat(value.toPrecision(digits(value, step, size >= 1000 ? Math.floor(Math.log10(size)) + 1 : 4))));
  }

  /** The mean of n values around each, of fewer at the ends: it does not lag behind them. What is no number does not count. */
  function smoothed(values, n) {
    const sums = [0], counts = [0];
    values.forEach((value, i) => {
      sums.push(sums[i] + (Number.isFinite(value) ? value : 0));
      counts.push(counts[i] + Number.isFinite(value));
    });
    return values.map((value, i) => {
      const from = Math.max(0, i - ((n - 1) >> 1)), to = Math.min(values.length, i + (n >> 1) + 1);
      return n > 1 && counts[to] > counts[from] ? (sums[to] - sums[from]) / (counts[to] - counts[from]) : value;
    });
  }

  /** The index of the step nearest to x; the steps ascend. */
  function nearest(steps, x) {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < x) low = middle + 1; else high = middle;
    }
    return low > 0 && x - steps[low - 1] < steps[low] - x ? low - 1 : low;
  }

  /** One row per step of any line: [step, value or null of each line]. */
  function rows(lines, log) {
    const all = new Map();
    lines.forEach((line, i) => line.steps.forEach((step, k) => {
      if (!all.has(step)) all.set(step, [step, ...lines.map(() => null)]);
      if (!log || line.values[k] > 0) all.get(step)[i + 1] = line.values[k];
    }));
    return [...all.values()].sort((a, b) => a[0] - b[0]);
  }

  function byDygraphs(holder, marks, tell, inUnit) {
    let graph = null;
    const colours = (lines) => ({colors: lines.map((line) => style(line.colour) + (line.isFaint ? "50" : "")), axisLineColor: style("--rule"), gridLineColor: style("--grid")});
    function drawMarks(context, area, g) {
      context.strokeStyle = style("--quiet");
      context.setLineDash([2, 4]);
      for (const step of marks) {
        const x = g.toDomXCoord(step);
        if (x < area.x || x > area.x + area.w) continue;
        context.beginPath();
        context.moveTo(x, area.y);
        context.lineTo(x, area.y + area.h);
        context.stroke();
      }
      context.setLineDash([]);
    }
    let shown = [];
    return {
      show(lines, log) {
        shown = lines;
        const options = {file: rows(lines, log), logscale: log, ...colours(lines)};
        if (graph) return graph.updateOptions(options);
        const series = {};
        lines.forEach((line, i) => { series[`line${i}`] = {strokePattern: PATTERNS[line.pattern]}; });
        graph = new Dygraph(holder, options.file, {
          ...options, series, labels: ["step", ...lines.map((line, i) => `line${i}`)], legend: "never", connectSeparatedPoints: true,
          strokeWidth: 1.5, pointSize: 3, highlightCircleSize: 3, underlayCallback: drawMarks, xlabel: "step", xLabelHeight: 16,
          axes: {x: {axisLabelFontSize: 12, axisLabelWidth: 58, pixelsPerLabel: 60, axisLabelFormatter: (value) => number(value)},
                 y: {axisLabelFontSize: 12, axisLabelWidth: 64, axisLabelFormatter: (value, _, __, g) => inUnit(value, (g.yAxisRange(0)[1] - g.yAxisRange(0)[0]) / 10)}},
          highlightCallback: (event, x) => tell.at(x), unhighlightCallback: () => tell.at(null),
          zoomCallback: (from, to) => {
            if (graph.isZoomed("x")) tell.zoomed([from, to]);
            else if (!graph.isZoomed()) tell.zoomed(null);
          },
        });
      },
      zoom(range) {
        if (range) graph.updateOptions({dateWindow: range}); else graph.resetZoom();
      },
      redraw() { graph.updateOptions(colours(shown)); },
      resize() { graph.resize(); },
    };
  }

  const inSvg = (name, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (parent) parent.append(node);
    return node;
  };

  /** Round numbers from low to high, about as many. */
  function ticks(low, high, count) {
    const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((each) => each * power >= raw) * power, found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(at);
    return found;
  }

  function bySvg(holder, marks, tell, inUnit) {
    const left = 70, right = 8, top = 6, bottom = 36;
    let lines = [], log = false, window_ = null, place = null;
    function area() {
      const shown = rows(lines, log).filter(([step]) => !window_ || (step >= window_[0] && step <= window_[1]));
      const values = shown.flatMap((row) => row.slice(1)).filter((value) => value !== null).map((value) => (log ? Math.log10(value) : value));
      let low = Infinity, high = -Infinity;
      for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
      if (low > high) { low = 0; high = 1; }
      if (low === high) { low -= Math.abs(low) / 100 + 1e-6; high += Math.abs(high) / 100 + 1e-6; }
      const steps = window_ || [shown.length ? shown[0][0] : 0, shown.length ? shown[shown.length - 1][0] : 1];
      return {from: steps[0], to: Math.max(steps[1], steps[0] + 1e-6), low, high, width: Math.max(holder.clientWidth, 120), height: Math.max(holder.clientHeight, 80)};
    }
    function draw() {
      const a = place = area();
      const x = (step) => left + (step - a.from) / (a.to - a.from) * (a.width - left - right);
      const y = (value) => top + (a.high - value) / (a.high - a.low) * (a.height - top - bottom);
      const svg = inSvg("svg", {viewBox: `0 0 ${a.width} ${a.height}`, preserveAspectRatio: "none"});
      for (const step of ticks(a.from, a.to, 5)) {
        inSvg("path", {d: `M${x(step)} ${top}V${a.height - bottom}`, stroke: "var(--grid)"}, svg);
        inSvg("text", {x: x(step), y: a.height - 20, "text-anchor": "middle"}, svg).textContent = number(step);
      }
      inSvg("text", {x: (left + a.width - right) / 2, y: a.height - 4, "text-anchor": "middle"}, svg).textContent = "step";
      for (const value of ticks(a.low, a.high, 5)) {
        inSvg("path", {d: `M${left} ${y(value)}H${a.width - right}`, stroke: "var(--grid)"}, svg);
        inSvg("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, svg).textContent = inUnit(log ? 10 ** value : value, log ? 0 : (a.high - a.low) / 10);
      }
      for (const step of marks)
        if (step >= a.from && step <= a.to) inSvg("path", {d: `M${x(step)} ${top}V${a.height - bottom}`, stroke: "var(--quiet)", "stroke-dasharray": "2 4"}, svg);
      for (const line of lines) {
        const points = line.steps.map((step, i) => [step, log ? Math.log10(line.values[i]) : line.values[i]])
          .filter(([step, value]) => isFinite(value) && step >= a.from && step <= a.to);
        const d = points.map(([step, value]) => `${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
        inSvg("path", {d: d && `M${d}${points.length === 1 ? "h1" : ""}`, fill: "none", stroke: `var(${line.colour})`, "stroke-width": 1.5, "stroke-opacity": line.isFaint ? 0.3 : 1,
                       ...(PATTERNS[line.pattern] && {"stroke-dasharray": PATTERNS[line.pattern].join(" ")})}, svg);
      }
      holder.replaceChildren(svg);
    }
    const stepAt = (event) => {
      const box = holder.getBoundingClientRect();
      const part = (event.clientX - box.left - left) / (box.width - left - right);
      return place.from + Math.min(1, Math.max(0, part)) * (place.to - place.from);
    };
    let begin = null;
    holder.addEventListener("pointerdown", (event) => { begin = [event.clientX, stepAt(event)]; });
    holder.addEventListener("pointermove", (event) => tell.at(stepAt(event)));
    holder.addEventListener("pointerleave", () => { begin = null; tell.at(null); });
    holder.addEventListener("pointerup", (event) => {
      const range = begin && Math.abs(event.clientX - begin[0]) > 5 && [begin[1], stepAt(event)].sort((a, b) => a - b);
      begin = null;
      if (range) tell.zoomed(range);
    });
    holder.addEventListener("dblclick", () => tell.zoomed(null));
    return {
      show(newLines, newLog) { lines = newLines; log = newLog; draw(); },
      zoom(range) { window_ = range; draw(); },
      redraw: draw,
      resize: draw,
    };
  }

  return {number, digits, smoothed, nearest, ticks, inSvg, draw: typeof Dygraph === "undefined" ? bySvg : byDygraphs};
})();

// SPDX-License-Identifier: Apache-2.0
"use strict";
/** Parallel coordinates: an axis for each key that differs, the last one for the result, and a line for each run.
 *  Numbers that span two powers of ten stand on a logarithmic axis, or one above the other if 0 is among them, as texts do.
 *  `differences`: [{key, values of the runs as text or null}]; `score`: {name, values}; `ranking`: runs with a result,
 *  the best first; `names`: of the runs. */
const parallel = (() => {
  const MOST_AXES = 8;

  const rounded = (value) => charts.number(parseFloat(value.toPrecision(3)));

  /** {name, at(run): 0 (bottom) to 1 or null, marks: [[place, text]], note} */
  function axisOf(name, values, isLogAllowed) {
    const numbers = values.map((value) => (value === null || value === "" ? NaN : Number(value)));
    const known = [...new Set(numbers.filter(Number.isFinite))].sort((a, b) => a - b);
    if (values.every((value, i) => value === null || Number.isFinite(numbers[i])) && known.length) {
      const isWide = isLogAllowed && known[0] >= 0 && known.at(-1) / known.find((value) => value > 0) >= 100;
      const isLog = isWide && known[0] > 0;
      const on = (value) => (isLog ? Math.log10(value) : isWide ? known.indexOf(value) : value), low = on(known[0]), high = on(known.at(-1));
      const at = (value) => (high > low ? (on(value) - low) / (high - low) : 0.5);
      // The ends first: a mark too near to an earlier one is left out.
      const marks = [known[0], known.at(-1), ...known].map((value) => [at(value), rounded(value)]);
      return {name, at: (run) => (Number.isFinite(numbers[run]) ? at(numbers[run]) : null), marks, note: isLog ? "logarithmic" : isWide ? "in order" : ""};
    }
    const texts = [...new Set(values.map((value) => value ?? "none"))].sort();
    const place = (text) => (texts.length > 1 ? texts.indexOf(text) / (texts.length - 1) : 0.5);
    return {name, at: (run) => place(values[run] ?? "none"), marks: texts.map((text) => [place(text), text]), note: ""};
  }

  return (holder, differences, score, ranking, names) => {
    const keys = differences.slice(0, MOST_AXES), width = Math.max(holder.clientWidth, 200), height = Math.max(holder.clientHeight, 160);
    const axes = [...keys.map((key) => axisOf(key.key, key.values, true)), axisOf(score.name, score.values, false)];
    const left = 76, right = 76, top = 44, bottom = 24, room = (width - left - right) / (axes.length - 1);
    const x = (axis) => left + axis * room, y = (part) => height - bottom - part * (height - top - bottom);
    const svg = charts.inSvg("svg", {viewBox: `0 0 ${width} ${height}`, width, height});
    holder.replaceChildren(svg);  // only then do texts have a length
    /** Shortened to `most` pixels; whole when it is pointed at. */
    const text = (attributes, content, most) => {
      const node = charts.inSvg("text", attributes, svg);
      node.textContent = content;
      for (let kept = content.length - 1; kept > 0 && node.getComputedTextLength() > most; --kept) node.textContent = `${content.slice(0, kept)}…`;
      if (node.textContent !== content) charts.inSvg("title", {}, node).textContent = content;
    };
    [...ranking].reverse().forEach((run, i) => {
      const points = axes.map((axis, k) => [axis.at(run), k]).filter(([part]) => part !== null).map(([part, k]) => `${x(k).toFixed(1)} ${y(part).toFixed(1)}`);
      const isBest = run === ranking[0];
      const line = charts.inSvg("path", {class: isBest ? "run best" : "run", d: `M${points.join("L")}`, "stroke-opacity": isBest ? 1 : 0.15 + 0.75 * (i + 1) / ranking.length}, svg);
      charts.inSvg("title", {}, line).textContent = [names[run], `${score.name} ${charts.number(score.values[run])}`, ...keys.map((key) => `${key.key} = ${key.values[run] ?? "none"}`)].join("\n");
    });
    axes.forEach((axis, k) => {
      charts.inSvg("path", {d: `M${x(k)} ${top}V${height - bottom}`, stroke: "var(--quiet)"}, svg);
      const isLast = k === axes.length - 1, own = k === 0 ? 2 * left : isLast ? 2 * right : room;
      const cut = axis.name.lastIndexOf(".") + 1, words = cut ? [axis.name.slice(0, cut), axis.name.slice(cut)] : ["", axis.name];
      words.forEach((part, line) => part && text({x: x(k), y: 14 + 16 * line, "text-anchor": "middle", class: "name"}, part, Math.min(own, room) - 6));
      if (axis.note) text({x: x(k), y: height - 6, "text-anchor": "middle"}, axis.note, room);
      const marked = [];
      for (const [part, label] of axis.marks) {
        if (marked.some((other) => Math.abs(other - y(part)) < 15)) continue;
        marked.push(y(part));
        text({x: x(k) + (isLast ? 7 : -7), y: y(part) + 4, "text-anchor": isLast ? "start" : "end"}, label, (isLast ? right : k === 0 ? left : room) - 14);
      }
    });
    if (differences.length > keys.length) text({x: left, y: height - 6}, `${differences.length - keys.length} more keys differ`, width);
  };
})();

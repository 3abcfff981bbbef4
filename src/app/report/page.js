// SPDX-License-Identifier: Apache-2.0
"use strict";
// Draws the report from the data in the page. All texts go through textContent: none is taken for HTML.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("report");
  const number = charts.number;

  function make(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) key === "class" || key.startsWith("aria-") || key === "role" || key === "scope" ? node.setAttribute(key, value) : node[key] = value;
    node.append(...children.filter((child) => ![null, undefined, "", false].includes(child)));
    return node;
  }

  function duration(seconds) {
    if (seconds < 120) return `${number(parseFloat(seconds.toPrecision(3)))} s`;
    if (seconds < 7200) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
    return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
  }

  function bytes(count, step = 0) {
    let unit = 0;
    for (; count >= 1024 && unit < 5; ++unit, step /= 1024) count /= 1024;
    return `${number(parseFloat(count.toPrecision(charts.digits(count, step, 3))), step)} ${["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
  }

  const percent = (part) => `${(100 * part).toFixed(2)}%`;
  const right = (text) => make("td", {class: "number"}, text);
  const cell = (content) => content instanceof HTMLTableCellElement ? content : make("td", {}, content ?? "");

  /** Heads that begin with a "#" stand above numbers. */
  function table(caption, heads, rows, className = "wide") {
    const head = make("tr", {}, ...heads.map((text) => text.startsWith("#") ? make("th", {scope: "col", class: "number"}, text.slice(1)) : make("th", {scope: "col"}, text)));
    const body = make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell))));
    return make("div", {class: className, tabIndex: 0, role: "region", "aria-label": caption}, make("table", {}, make("thead", {}, head), body));
  }

  function section(id, title) {
    const node = make("section", {id}, make("h2", {}, title));
    main.append(node);
    contents.append(make("a", {href: `#${id}`}, title));
    return node;
  }

  /** Calls `fill` for each run, below its name if there are several. */
  function eachRun(parent, fill) {
    data.runs.forEach((run, i) => {
      if (data.runs.length > 1) parent.append(make("h3", {}, run.name));
      fill(run, i);
    });
  }

  /** Parts: [name, seconds]; the colour of a part is the variable of its name. */
  function bar(parts, whole, className, label) {
    const shown = parts.filter(([, seconds]) => seconds > 0);
    return make("div", {class: className, role: "img", "aria-label": label}, ...shown.map(([name, seconds]) => {
      const part = make("span", {title: `${name}: ${duration(seconds)}, ${percent(seconds / whole)}`});
      part.style.cssText = `background: var(--${name.replace(/\W/g, "-")}); width: ${100 * seconds / whole}%`;
      return part;
    }));
  }

  function swatch(name) {
    const node = make("span", {class: "swatch"});
    node.style.background = `var(--${name.replace(/\W/g, "-")})`;
    return node;
  }

  // Runs of one folder, as those of a sweep, are told apart by the rest of their names.
  const parts = data.runs.map((run) => run.name.split("/"));
  const isOneFolder = data.runs.length > 1 && parts.every((each) => each.length > 1 && each.slice(0, -1).join("/") === parts[0].slice(0, -1).join("/"));
  const shortNames = data.runs.map((run, i) => (isOneFolder ? parts[i].at(-1) : run.name));
  const contents = make("nav", {"aria-label": "Contents"});
  const names = isOneFolder ? `${data.runs.length} runs in ${parts[0].slice(0, -1).join("/")}` : data.runs.map((run) => run.name).join(", ");
  document.title = `distdl report: ${names}`;
  main.append(make("h1", {}, names));

  function overview() {
    const parent = section("overview", "Overview");
    const rows = data.results.map((row) => [row.name, ...row.texts.map(right)]);
    rows.push(["goodput", ...data.runs.map((run) => right(percent(run.ledger.goodput)))]);
    rows.push(["goodput without the queue", ...data.runs.map((run) => right(percent(run.ledger.goodput_in_jobs)))]);
    parent.append(table("Results", ["", ...shortNames.map((name) => `#${name}`)], rows));
  }

  const VERDICTS = {finished: "good", failed: "fault"};  // colours of states

  /** Runs with a result, the best first. */
  const ranking = data.runs.map((run, i) => i).filter((i) => data.score && data.score.values[i] !== null)
    .sort((a, b) => (data.score.values[a] - data.score.values[b]) * (data.score.is_larger_better ? -1 : 1));

  /** What a reader wants to know first: the best run, and a sentence for each. */
  function verdicts() {
    const shown = 3, isOne = data.runs.length === 1;
    if (!isOne && ranking.length > 1) main.append(make("p", {class: "verdict"}, make("b", {}, `The best of ${data.runs.length} runs: ${shortNames[ranking[0]]}`), `, ${data.score.name} ${number(data.score.values[ranking[0]])}.`));
    const order = [...ranking, ...data.runs.keys()].filter((run, i, all) => all.indexOf(run) === i);
    const sentences = order.map((i) => {
      const [state, ...rest] = data.runs[i].verdict.split("; ");
      return make("p", {class: isOne ? "verdict" : ""}, isOne ? "" : `${data.runs[i].name}: `, make("b", {class: VERDICTS[data.runs[i].status.state] ?? ""}, state), [...rest.map((each) => `; ${each}`), "."].join(""));
    });
    main.append(...sentences.slice(0, shown));
    if (sentences.length > shown) main.append(make("details", {}, make("summary", {}, `The other ${sentences.length - shown} runs`), ...sentences.slice(shown)));
    main.append(contents, make("p", {class: "quiet"}, `Report by distdl ${data.made.distdl}, made ${data.made.at}. Times are of the zone ${data.made.zone}.`));
  }

  /** The value of a key; of a long number six digits, all of them when it is pointed at. */
  function keyValue(value) {
    const isLong = value !== null && value.length > 9 && isFinite(value);
    return make("td", {title: isLong ? value : ""}, isLong ? number(parseFloat(Number(value).toPrecision(6))) : value ?? "-");
  }

  function differences() {
    if (data.runs.length < 2) return;
    const parent = section("differences", "How the jobs differ");
    const unkept = data.runs.filter((run) => run.job === null).map((run) => run.name);
    if (unkept.length) parent.append(make("p", {class: "quiet"}, `The job was not kept by: ${unkept.join(", ")}`));
    if (!data.differences.length) return parent.append(make("p", {}, "No key of the jobs differs."));
    if (data.runs.length > 2 && ranking.length > 1) {
      const plot = make("div", {class: "parallel", role: "img", "aria-label": `The keys of each run and its ${data.score.name}`});
      parent.append(make("p", {class: "quiet"}, `A line is a run: from the values of its keys to its ${data.score.name}. The better, the stronger its colour; thick: ${shortNames[ranking[0]]}, the best. Point at a line for its run.`), plot);
      const draw = () => parallel(plot, data.differences, data.score, ranking, shortNames);
      draw();
      new ResizeObserver(draw).observe(plot);
    }
    parent.append(table("Keys that differ", ["key", ...shortNames], data.differences.map((row) => [make("td", {class: "name"}, row.key), ...row.values.map(keyValue)])));
  }

  /** The range of a chart: that of its means with as much again on each side, so that a few wild points do not make all else flat. */
  function limits(means) {
    let low = Infinity, high = -Infinity;
    for (const line of means)
      for (const value of line.values)
        if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    const room = high - low || Math.abs(high) || 1;
    return [low - room, high + room];
  }

  /** A chart with its title, legend and, where it helps, a switch for a logarithmic scale. */
  function chartOf(chart, marks, onZoom) {
    const lines = chart.lines.map((line) => ({...line, colour: `--line${line.run % 6}`}));
    // A chart of one run tells its lines apart by colour, too.
    if (data.runs.length === 1) lines.forEach((line, i) => { line.colour = `--line${i % 6}`; });
    const plot = make("div", {class: "plot", role: "img", "aria-label": `${chart.title} by step`});
    const values = lines.map(() => make("span", {}));
    // An entry for each run, with its lines.
    const legend = make("ul", {class: "legend"}, ...data.runs.map((run, r) => {
      const own = lines.flatMap((line, i) => (line.run === r ? [i] : []));
      return own.length > 0 && make("li", {}, data.runs.length > 1 && `${shortNames[r]}: `, ...own.flatMap((i) => {
        const key = make("span", {class: `key pattern${lines[i].pattern}`});
        key.style.borderTopColor = `var(${lines[i].colour})`;
        return [key, lines[i].name && `${lines[i].name} `, values[i]];
      }));
    }));
    const step = make("li", {class: "quiet"});
    legend.append(step);
    const inUnit = chart.unit === "bytes" ? bytes : number;
    let drawn = lines, means = lines, log = false, outside = 0;
    function at(x) {
      means.forEach((line, i) => { values[i].textContent = inUnit(line.values[x === null ? line.values.length - 1 : charts.nearest(line.steps, x)]); });
      step.textContent = (x === null ? "at the end" : `at step ${Math.round(x)}`) + (outside ? `; ${outside} points lie outside` : "");
    }
    const drawing = charts.draw(plot, marks, {at, zoomed: onZoom}, inUnit);
    const node = make("div", {class: "chart"}, plot, legend);
    const title = make("h3", {}, chart.title);
    if (lines.some((line) => line.values.some((value) => value > 0))) {
      const box = make("input", {type: "checkbox", onchange: () => { log = box.checked; drawing.show(drawn, log); }});
      title.append(make("label", {title: "logarithmic scale"}, box, " log"));
    }
    node.prepend(title, make("div", {class: "unit"}, chart.unit));
    return {
      node,
      /** Shows the mean of n points above the faint points; null: of as many as suit each line. */
      smooth(n) {
        const count = (line) => (chart.is_noisy ? n ?? Math.max(1, Math.floor(line.values.length / 50)) : 1);
        means = lines.map((line) => ({...line, values: charts.smoothed(line.values, count(line))}));
        const [low, high] = limits(means);
        const isInside = (value) => !Number.isFinite(value) || (value >= low && value <= high);
        outside = lines.reduce((sum, line) => sum + line.values.filter((value) => !isInside(value)).length, 0);
        drawn = [...lines.map((line) => ({...line, isFaint: true, values: line.values.map((value) => (isInside(value) ? value : Math.min(high, Math.max(low, value)))),
                                          ...(count(line) === 1 && {steps: [], values: []})})), ...means];
        drawing.show(drawn, log);
        at(null);
      },
      zoom: drawing.zoom,
      redraw: drawing.redraw,
      resize: drawing.resize,
    };
  }

  function curves() {
    const parent = section("curves", "Curves by step");
    if (!data.charts.length) return parent.append(make("p", {}, "No step has been recorded."));
    const marks = [...new Set(data.runs.flatMap((run) => run.status.restarts.map((restart) => restart.resumed_from)))];
    let all = [];
    const from = make("input", {type: "number", min: 0}), to = make("input", {type: "number", min: 0}), mean = make("input", {type: "number", min: 1, placeholder: "fit"});
    function zoom(range) {
      from.value = range ? Math.round(range[0]) : "";
      to.value = range ? Math.round(range[1]) : "";
      for (const chart of all) chart.zoom(range);
    }
    const last = Math.max(...data.charts.flatMap((chart) => chart.lines.map((line) => line.steps[line.steps.length - 1])));
    from.onchange = to.onchange = () => {
      const range = [Number(from.value || 0), Number(to.value || last)];
      if (range[0] < range[1]) zoom(range);
    };
    mean.onchange = () => all.forEach((chart) => chart.smooth(mean.value ? Math.max(1, Math.floor(mean.value)) : null));
    const controls = make("div", {class: "controls"}, make("label", {}, "steps from ", from), make("label", {}, "to ", to),
                          make("button", {type: "button", onclick: () => zoom(null)}, "all steps"), make("label", {}, "mean of ", mean, " points"),
                          make("span", {class: "quiet"}, "Drag in a chart to zoom all of them; double-click for all steps." + (marks.length ? " Dotted lines: a start resumed there." : "")));
    const grid = make("div", {class: "charts"});
    parent.append(controls, grid);
    all = data.charts.map((chart) => {
      const made = chartOf(chart, marks, zoom);
      grid.append(made.node);
      made.smooth(null);
      new ResizeObserver(made.resize).observe(made.node);
      return made;
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((chart) => chart.redraw()));
  }

  function goodput() {
    const parent = section("goodput", "Where the time went");
    eachRun(parent, (run) => {
      const ledger = run.ledger, wall = ledger.wall_seconds;
      if (!(wall > 0)) return parent.append(make("p", {}, "The run has no times."));
      const parts = data.buckets.map((bucket) => [bucket.name, ledger.seconds[bucket.name]]);
      const rows = data.buckets.map((bucket) => [make("td", {class: "name"}, swatch(bucket.name), bucket.name), right(duration(ledger.seconds[bucket.name])), right(percent(ledger.seconds[bucket.name] / wall)), bucket.meaning]);
      const sum = parts.reduce((all, [, seconds]) => all + seconds, 0);
      rows.push(["sum", right(duration(sum)), right(percent(sum / wall)), `wall time: ${duration(wall)}`]);
      parent.append(make("p", {}, `Goodput ${percent(ledger.goodput)}, without the queue ${percent(ledger.goodput_in_jobs)}.`),
                    bar(parts, wall, "bar", `Training took ${percent(ledger.goodput)} of the time`), table("Parts of the time", ["part", "#time", "#share", "meaning"], rows));
    });
  }

  const PHASES = ["compute", "data", "sum", "save", "other"];
  const stepOf = (rank) => PHASES.reduce((all, phase) => all + rank[phase], 0);

  function ranks() {
    if (!data.runs.some((run) => run.ranks.length)) return;
    const parent = section("ranks", "Ranks");
    parent.append(make("p", {}, "Where a step's time went in each rank, at the end of the run. ", make("span", {class: "quiet"}, "data: waits for samples; sum: waits for other ranks; save: the stall of saves.")),
                  make("p", {}, ...PHASES.flatMap((phase) => [swatch(phase), `${phase}   `])));
    eachRun(parent, (run) => {
      const longest = Math.max(...run.ranks.map(stepOf));
      if (!(longest > 0)) return parent.append(make("p", {}, "No step has been measured."));
      const rows = run.ranks.map((rank) => [right(String(rank.rank)), rank.host, bar(PHASES.map((phase) => [phase, rank[phase]]), longest, "bar small", `compute ${percent(rank.compute / longest)}`),
                                            ...PHASES.map((phase) => right(number(rank[phase])))]);
      parent.append(table("Ranks", ["#rank", "node", "a step", ...PHASES.map((phase) => `#${phase}, s`)], rows, "long"));
    });
  }

  function nodes() {
    if (!data.runs.some((run) => run.nodes.length)) return;
    const parent = section("nodes", "Nodes and stragglers");
    parent.append(make("p", {class: "quiet"}, "Slowdown: the time of the node's slowest rank for a microbatch, where the median rank of the run has 1. Cost: by how much its computation is longer than that of the median rank, as a share of a step; a straggler costs 5% or more."));
    eachRun(parent, (run) => {
      const slow = run.nodes.filter((node) => node.is_straggler).map((node) => `${node.host} (its computation is longer than the median by ${percent(node.cost)} of a step, in the mean of ${node.rows} measurements)`);
      parent.append(make("p", {}, run.nodes.some((node) => node.rows) ? (slow.length ? `Stragglers: ${slow.slice(0, 8).join(", ")}${slow.length > 8 ? ` and ${slow.length - 8} more` : ""}.` : "No node was a straggler.") : "How fast the nodes are was not measured."));
      const rows = run.nodes.map((node) => [node.host, right(node.rows ? String(node.ranks) : ""), right(node.rows ? number(node.slowdown) + (node.is_present ? "" : ", before") : ""), right(number(node.worst)), right(node.rows ? percent(node.cost) : ""),
                                            right(node.rows ? `${node.slowest} of ${node.rows}` : ""), node.state ?? "", make("td", {class: "warning"}, node.left_out ?? "")]);
      if (rows.length) parent.append(table("Nodes", ["node", "#ranks", "#slowdown", "#greatest", "#cost", "#slowest", "state", "left out"], rows, "long"));
    });
  }

  function saves() {
    const parent = section("saves", "Checkpoints and snapshots");
    eachRun(parent, (run) => {
      const totals = run.saves.totals.map((total) => `${total.count} ${total.kind}${total.count > 1 ? "s" : ""}${total.bytes > 0 ? ` of ${bytes(total.bytes / total.count)}` : ""}, ${duration(total.seconds / total.count)} each, stall ${duration(total.stall_seconds)} in all`);
      for (const what of ["failed", "skipped"]) if (run.saves[what]) totals.push(`${run.saves[what]} ${what}`);
      parent.append(make("p", {}, totals.join("; ") || "Nothing has been saved."));
      if (!run.saves.newest.length) return;
      const rows = [...run.saves.newest].reverse().map((save) => [save.at, save.kind, save.places, right(String(save.step)), right(save.bytes > 0 ? bytes(save.bytes) : ""), right(duration(save.seconds)), right(duration(save.stall_seconds))]);
      parent.append(table("Saves", ["time", "kind", "where", "#step", "#size", "#until complete", "#stall"], rows, "long"));
    });
  }

  function recoveries() {
    const parent = section("recoveries", "Recoveries");
    eachRun(parent, (run) => {
      if (!run.status.restarts.length) return parent.append(make("p", {}, "The run was never interrupted."));
      const rows = run.status.restarts.map((restart) => [
        restart.at, make("td", {}, restart.cause, make("div", {class: "quiet"}, `${restart.cause_code}: ${(data.causes[restart.cause_code] ?? "").replaceAll("`", "")}`)), [restart.node, restart.rank === null ? "" : `rank ${restart.rank}`].filter(Boolean).join(", "),
        right(String(restart.resumed_from)), right(String(restart.steps_repeated)), right(restart.down_seconds === undefined ? "" : duration(restart.down_seconds)), right(restart.lost_seconds === undefined ? "" : duration(restart.lost_seconds))]);
      parent.append(table("Recoveries", ["training went on", "cause", "where", "#from step", "#steps again", "#since the fault was found", "#time lost"], rows, "long"));
    });
  }

  function timeline() {
    const parent = section("timeline", "Timeline");
    eachRun(parent, (run) => {
      if (!run.timeline.length) return parent.append(make("p", {}, "Nothing has happened."));
      const rows = run.timeline.map((entry) => [entry.at, make("td", {class: entry.tone}, entry.tone === "fault" ? `Fault: ${entry.text}` : entry.text)]);
      parent.append(table("Timeline", ["time", "what happened"], rows, "long"));
    });
  }

  function environment() {
    const parent = section("environment", "Environment and job");
    eachRun(parent, (run) => {
      parent.append(table("Environment", ["", ""], run.environment));
      if (run.job === null) return parent.append(make("p", {}, "The run did not keep its job file."));
      const link = make("a", {href: URL.createObjectURL(new Blob([run.job], {type: "text/plain"})), download: "job.toml"}, "Save job.toml");
      parent.append(make("details", {}, make("summary", {}, "job.toml: all keys of the start that began last"), make("pre", {tabIndex: 0}, run.job)), make("p", {}, link),
                    make("p", {}, "To do the run again, with the data set in its place and the same version of distdl: save job.toml and type the first command. The others print the same digest if both runs end at the same step, whatever their ranks and interruptions, on one kind of processor."),
                    make("pre", {tabIndex: 0}, run.reproduce.join("\n")));
    });
  }

  for (const part of [verdicts, curves, differences, overview, goodput, ranks, nodes, saves, recoveries, timeline, environment]) part();
})();

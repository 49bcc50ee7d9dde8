// The page of a run, a study or a model: reads the payload and draws it with Observable Plot. All names are set as text.
"use strict";

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a", "#9467bd"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const SHOWN_AT_FIRST = 8;
const state = { filter: "", sort: { column: null, down: false }, measure: null, against: "epochs", hidden: null, run: 0, step: null, playing: null };
let payload = JSON.parse(document.getElementById("payload").textContent);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const colorOf = (index) => COLORS[index % COLORS.length];
const dashOf = (index) => DASHES[Math.floor(index / COLORS.length) % DASHES.length];
const measureOf = (key) => payload.measures.find((one) => one.key === key);
const rounded = (value) => (value === null || value === undefined ? "–" : Number(value.toPrecision(4)).toString());
const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;

function section(id, title, ...children) {
  return make("section", { id, "aria-labelledby": `${id}-title` }, make("h2", { id: `${id}-title` }, title), ...children);
}

function chart(options, label, caption, share = 1) {
  const width = Math.max(300, Math.min(1000, share * (document.body.clientWidth - 40)));
  const drawn = Plot.plot({ width, style: { background: "transparent", color: "currentColor", fontSize: "12px" }, ...options });
  const picture = drawn.tagName.toLowerCase() === "svg" ? drawn : [...drawn.querySelectorAll("svg")].at(-1); // after its legend
  drawn.querySelectorAll("svg").forEach((one) => one.setAttribute("aria-hidden", one !== picture));
  picture.setAttribute("role", "img");
  for (const part of picture.querySelectorAll("[aria-label]")) { // the picture as a whole has a label
    part.dataset.mark = part.getAttribute("aria-label");
    part.removeAttribute("aria-label");
  }
  picture.setAttribute("aria-label", label);
  return make("figure", {}, drawn, caption ? make("figcaption", {}, caption) : null);
}

function table(columns, rows) {
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((value, at) => (at ? make("td", {}, String(value)) : make("th", { scope: "row" }, String(value))))));
  const whole = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `table: ${columns.join(", ")}` }, whole);
}

function choice(label, options, value, change) {
  const select = make("select", { onchange: (event) => { change(event.target.value); draw(); } },
    ...options.map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return make("label", {}, label, select);
}

// --- curves

function curvePoints(key, against) {
  const bands = (payload.bands[against] || {})[key];
  if (bands) {
    return bands.flatMap((band) => band.x.map((x, at) => ({
      group: band.group, line: String(band.group), x, y: band.mean[at], low: band.low[at], high: band.high[at],
    })));
  }
  return payload.runs.flatMap((run, number) => (run.series[key] || []).map((y, at) => ({
    group: run.group, line: `run ${number}`, x: run[against][at], y, low: null, high: null,
  })).filter((point) => point.y !== null && point.x !== null && point.x !== undefined));
}

function curves(key, against, height, share = 1) {
  const measure = measureOf(key);
  const points = curvePoints(key, against).filter((point) => !state.hidden.has(point.group));
  if (!points.length) return null;
  const band = points.filter((point) => point.low !== null);
  const stroke = (point) => colorOf(point.group);
  const lines = d3.groups(points, (point) => point.line).map(([, line]) =>
    Plot.line(line, { x: "x", y: "y", stroke: stroke(line[0]), strokeWidth: 2, strokeDasharray: dashOf(line[0].group) || null }));
  const named = points.map((point) => ({ ...point, name: payload.groups[point.group].name }));
  return chart({
    height,
    x: { label: against === "epochs" ? "epoch" : "seconds" },
    y: { label: null, grid: true, nice: true },
    marks: [
      Plot.areaY(band, { x: "x", y1: "low", y2: "high", z: "line", fill: stroke, fillOpacity: 0.15 }),
      ...lines,
      points.length < 60 ? Plot.dot(points, { x: "x", y: "y", fill: stroke, r: 2 }) : null,
      Plot.tip(named, Plot.pointer({ x: "x", y: "y", title: (point) => `${point.name}\n${rounded(point.x)}: ${rounded(point.y)}`, fill: dark() ? "#14181d" : "#fff" })),
    ].filter(Boolean),
  }, `${measure.label} over ${against}: ${endings(points)}`, measure.label, share);
}

function endings(points) {
  const last = d3.rollups(points, (line) => line[line.length - 1], (point) => point.line);
  return last.slice(0, 12).map(([, point]) => `${payload.groups[point.group].name} ends at ${rounded(point.y)}`).join(", ");
}

function legend() {
  const items = payload.groups.map((group, index) => {
    const sample = d3.create("svg").attr("width", 28).attr("height", 10).attr("aria-hidden", "true");
    sample.append("line").attr("x2", 28).attr("y1", 5).attr("y2", 5).attr("stroke", colorOf(index)).attr("stroke-width", 3)
      .attr("stroke-dasharray", dashOf(index) || null);
    const box = make("input", { type: "checkbox", checked: !state.hidden.has(index), onchange: (event) => {
      if (event.target.checked) state.hidden.delete(index); else state.hidden.add(index);
      draw();
    } });
    return make("li", {}, make("label", {}, box, sample.node(), group.name));
  });
  return make("ul", { class: "legend", "aria-label": "shown in the curves" }, ...items);
}

function curveSection() {
  if (!payload.measures.length) return null;
  const controls = make("div", { class: "controls" },
    choice("measure", payload.measures.map((one) => [one.key, one.label]), state.measure, (value) => { state.measure = value; }),
    choice("over", [["epochs", "epochs"], ["seconds", "seconds"]], state.against, (value) => { state.against = value; }));
  return section("curves", "Over time", controls, payload.groups.length > 1 ? legend() : null,
    curves(state.measure, state.against, 380) || make("p", { class: "note" }, "No run has measured this yet."));
}

function healthSection() {
  const figures = payload.health.map((key) => curves(key, "epochs", 200, 0.33)).filter(Boolean)
    .map((figure) => make("div", { class: "card" }, figure));
  return figures.length ? section("health", "What happens inside", make("div", { class: "grid" }, ...figures)) : null;
}

// --- one run: shares of operations and the evolving cell

function runChoice() {
  if (payload.runs.length < 2) return null;
  return choice("run", payload.runs.map((run, at) => [String(at), run.name]), String(state.run), (value) => {
    state.run = Number(value);
    state.step = null;
  });
}

function shareFigure(run) {
  if (!run.operations.length) return null;
  const cells = run.shares.flatMap((row, at) => row.map((share, operation) => ({ epoch: run.epochs[at], operation: run.operations[operation], share })));
  return chart({
    height: 60 + 30 * run.operations.length,
    marginLeft: 130,
    x: { label: "epoch", type: "band", ticks: run.epochs.filter((epoch) => run.epochs.length < 15 || epoch % Math.ceil(run.epochs.length / 10) === 0) },
    y: { label: null, domain: run.operations },
    color: { scheme: "viridis", legend: true, label: "mean probability", domain: [0, Math.max(0.5, d3.max(cells, (cell) => cell.share) || 0)] },
    marks: [Plot.cell(cells, { x: "epoch", y: "operation", fill: "share", inset: 0.3, title: (cell) => `epoch ${cell.epoch}, ${cell.operation}: ${rounded(cell.share)}` })],
  }, `mean probability of each operation over epochs of ${run.name}`, "mean probability of each operation, by epoch");
}

function picture(cell) {
  const holder = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "drawn cell" });
  holder.innerHTML = cell.svg; // made and escaped by archgrad itself
  return holder;
}

function cellFigure(run) {
  const steps = run.cells.map((cell, at) => ({ cell, epoch: run.epochs[at] })).filter((step) => step.cell !== null);
  if (!steps.length) return null;
  const at = Math.min(state.step === null ? steps.length - 1 : state.step, steps.length - 1);
  const shown = steps[at];
  const changed = at > 0 && steps[at - 1].cell !== shown.cell ? ", changed" : "";
  const position = `epoch ${shown.epoch} of ${run.epochs[run.epochs.length - 1]}${changed}`;
  const slider = make("input", { type: "range", min: 0, max: steps.length - 1, value: at, "aria-label": "epoch of the drawn cell", "aria-valuetext": position,
    id: "cell-slider", oninput: (event) => { state.step = Number(event.target.value); drawCell(); } });
  const play = make("button", { type: "button", id: "cell-play", onclick: togglePlay }, state.playing ? "Pause" : "Play");
  return make("div", { id: "evolving-cell" },
    make("div", { class: "controls" }, play, slider, make("output", { id: "cell-epoch", for: "cell-slider" }, position)),
    picture(payload.cells[shown.cell]), make("p", { class: "note" }, make("code", {}, payload.cells[shown.cell].text)));
}

function drawCell() {
  const focused = document.activeElement && document.activeElement.id;
  const old = document.getElementById("evolving-cell");
  const figure = cellFigure(payload.runs[state.run]);
  if (old && figure) old.replaceWith(figure);
  if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
}

function togglePlay() {
  const count = payload.runs[state.run].cells.filter((cell) => cell !== null).length;
  if (state.playing) { clearInterval(state.playing); state.playing = null; drawCell(); return; }
  state.step = state.step === null || state.step >= count - 1 ? 0 : state.step;
  state.playing = setInterval(() => {
    if (state.step >= count - 1) { clearInterval(state.playing); state.playing = null; } else state.step += 1;
    drawCell();
  }, Math.max(80, Math.min(600, 8000 / count)));
  drawCell();
}

function runSection() {
  const run = payload.runs[state.run];
  if (!run) return null;
  const finding = run.finding ? make("p", {}, make("strong", {}, run.name), `: ${run.finding}`) : null;
  const cell = cellFigure(run);
  const shares = shareFigure(run);
  if (!cell && !shares && !finding) return null;
  return section("run", "The cell as it changes", make("div", { class: "controls" }, runChoice()), finding, cell, shares);
}

// --- the end: found cells, size, collapse, tables

function foundSection() {
  if (!payload.found.length) return null;
  const cards = payload.found.map((one) => make("div", { class: "card" },
    make("p", {}, make("strong", {}, one.title)), make("p", { class: "muted" }, one.about), picture(payload.cells[one.cell])));
  return section("found", "Found cells", make("div", { class: "grid" }, ...cards));
}

function sizeSection() {
  const charts = payload.scatters.map((scatter) => chart({
    height: 320,
    grid: true,
    x: { label: scatter.x, type: scatter.log ? "log" : "linear" },
    y: { label: scatter.y, nice: true },
    marks: [Plot.dot(scatter.points, { x: "x", y: "y", r: 5, fill: (point) => colorOf(point.group), fillOpacity: 0.8, tip: true, title: (point) => `${point.name}\n${rounded(point.x)}, ${rounded(point.y)}` })],
  }, `${scatter.y} against ${scatter.x} of ${scatter.points.length} architectures`, `${scatter.y} against ${scatter.x}`));
  return charts.length ? section("size", "Size against accuracy", ...charts) : null;
}

function collapseSection() {
  const bars = payload.groups.map((group, index) => ({ ...group, index })).filter((group) => group.collapsed);
  if (!bars.length) return null;
  return section("collapse", "Collapsed runs", chart({
    height: 50 + 26 * bars.length,
    marginLeft: 150,
    x: { label: "share of runs whose cell is mostly skip connections", domain: [0, 1], percent: false, grid: true },
    y: { label: null, domain: bars.map((bar) => bar.name) },
    marks: [
      Plot.barX(bars, { x: (bar) => bar.collapsed[0] / bar.collapsed[1], y: "name", fill: (bar) => colorOf(bar.index) }),
      Plot.text(bars, { x: (bar) => bar.collapsed[0] / bar.collapsed[1], y: "name", text: (bar) => `${bar.collapsed[0]} of ${bar.collapsed[1]}`, dx: 6, textAnchor: "start" }),
    ],
  }, bars.map((bar) => `${bar.name}: ${bar.collapsed[0]} of ${bar.collapsed[1]} runs collapsed`).join(", ")));
}

// --- the list of runs

function sortedRows() {
  const rows = payload.listing.rows.filter((row) => row.cells.join(" ").toLowerCase().includes(state.filter.toLowerCase()));
  const { column, down } = state.sort;
  if (column === null) return rows;
  const order = (one, other) => d3.ascending(one.cells[column], other.cells[column]);
  return rows.sort((one, other) => (down ? -1 : 1) * order(one, other));
}

function listRows() {
  return sortedRows().map((row) => make("tr", {}, ...row.cells.map((value, at) => {
    const text = value === null ? "–" : typeof value === "number" ? rounded(value) : value;
    return at ? make("td", {}, text) : make("th", { scope: "row" }, row.link ? make("a", { href: row.link }, text) : text);
  })));
}

function sortBy(column) {
  state.sort = { column, down: state.sort.column === column ? !state.sort.down : false };
  const body = document.getElementById("list-rows");
  body.replaceChildren(...listRows());
  body.closest("table").querySelectorAll("th[aria-sort], th[data-column]").forEach((head) => {
    head.setAttribute("aria-sort", Number(head.dataset.column) !== column ? "none" : state.sort.down ? "descending" : "ascending");
  });
}

function listSectionOfRuns() {
  if (!payload.listing) return null;
  const filter = make("input", { type: "search", value: state.filter, oninput: (event) => {
    state.filter = event.target.value;
    document.getElementById("list-rows").replaceChildren(...listRows());
  } });
  const heads = payload.listing.columns.map((name, at) => make("th", { scope: "col", "data-column": at, "aria-sort": "none" },
    make("button", { type: "button", onclick: () => sortBy(at) }, name)));
  const body = make("tbody", { id: "list-rows" }, ...listRows());
  const whole = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
  return section("list", "Runs", make("div", { class: "controls" }, make("label", {}, "filter", filter)),
    make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "table of runs" }, whole));
}

const tableSections = () => payload.tables.map((one, at) =>
  section(`table-${at}`, one.title, one.note ? make("p", { class: "note" }, one.note) : null, table(one.columns, one.rows)));

const listSection = (id, title, lines) => (lines.length ? section(id, title, make("ul", {}, ...lines.map((line) => make("li", {}, line)))) : null);

function commandSection() {
  if (!payload.commands.length) return null;
  return section("commands", "Do it again", make("pre", { tabindex: "0", role: "group", "aria-label": "commands" }, payload.commands.join("\n")));
}

function head() {
  const facts = payload.facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  return make("header", {}, make("h1", {}, payload.title), make("p", { class: "verdict" }, payload.verdict),
    facts.length ? make("dl", {}, ...facts) : null, make("p", { class: "live muted", id: "live", role: "status" }, payload.live || ""));
}

function prepare() {
  state.hidden ??= new Set(payload.groups.map((_, at) => at).filter((at) => at >= SHOWN_AT_FIRST));
  if (!measureOf(state.measure)) state.measure = payload.measures.length ? payload.measures[0].key : null;
  if (state.run >= payload.runs.length) state.run = 0;
}

function draw() {
  prepare();
  document.title = payload.title;
  const focused = document.activeElement && document.activeElement.closest("label")?.textContent;
  const sections = [payload.listing && payload.listing.rows.some((row) => row.link) ? listSectionOfRuns() : null, curveSection(), healthSection(), runSection(), foundSection(), sizeSection(), collapseSection(),
    ...tableSections(), payload.listing && !payload.listing.rows.some((row) => row.link) ? listSectionOfRuns() : null, listSection("findings", "Findings", payload.findings), listSection("notes", "Notes", payload.notes), commandSection()];
  document.getElementById("page").replaceChildren(head(), ...sections.filter(Boolean));
  if (focused) [...document.querySelectorAll("label")].find((label) => label.textContent === focused)?.querySelector("input, select")?.focus();
}

function listen() {
  const address = document.body.dataset.events;
  if (!address) return;
  new EventSource(address).onmessage = async () => {
    const answer = await fetch(document.body.dataset.payload);
    if (!answer.ok) return;
    payload = await answer.json();
    draw();
  };
}

draw();
listen();
let resizing;
addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 150); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

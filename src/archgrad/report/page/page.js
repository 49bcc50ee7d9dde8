// The page of a run, a fit or a study: reads the payload and draws it with Observable Plot. All names are set as text.
"use strict";

const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a8a", "#9467bd"];
const DARK_COLORS = ["#5aaee8", "#f08a4b", "#35c795", "#e0a3c4", "#f0b93a", "#8fd0f5", "#b5b5b5", "#bd9be0"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const SHOWN_AT_FIRST = 8;
const CLASSES_AT_FIRST = 15;
const state = { filter: "", sort: { column: null, down: false }, measure: null, against: "epochs", hidden: null, run: 0, edges: "", step: null, playing: null, every: false };
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

const colorOf = (index) => (dark() ? DARK_COLORS : COLORS)[index % COLORS.length];
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

function table(columns, rows, label = `table: ${columns.join(", ")}`) {
  const head = make("tr", {}, ...columns.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((value, at) => {
      const content = value instanceof Node ? value : String(value);
      return at ? make("td", {}, content) : make("th", { scope: "row" }, content);
    })));
  const whole = make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, whole);
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
    marginBottom: 40,
    x: { label: against === "epochs" ? "epoch" : "seconds", tickFormat: (value) => (against !== "epochs" || Number.isInteger(value) ? value : "") },
    y: { label: null, grid: true, nice: true, domain: range(points, measure.label.endsWith("(%)")), clamp: true },
    marks: [
      Plot.areaY(band, { x: "x", y1: "low", y2: "high", z: "line", fill: stroke, fillOpacity: 0.15 }),
      ...lines,
      points.length < 60 ? Plot.dot(points, { x: "x", y: "y", fill: stroke, r: 2 }) : null,
      Plot.tip(named, Plot.pointer({ x: "x", y: "y", title: (point) => `${point.name}\n${rounded(point.x)}: ${rounded(point.y)}`, fill: dark() ? "#14181d" : "#fff" })),
    ].filter(Boolean),
  }, `${measure.label} over ${against}: ${endings(points)}`, measure.label, share);
}

// From the lowest to the highest value or end of a band; an interval of few seeds may be wider than per cent can be.
function range(points, inPercent) {
  let low = d3.min(points, (point) => Math.min(point.y, point.low ?? point.y));
  let high = d3.max(points, (point) => Math.max(point.y, point.high ?? point.y));
  if (inPercent) [low, high] = [Math.max(low, Math.min(0, d3.min(points, (point) => point.y))), Math.min(high, 100)];
  return low < high ? [low, high] : [low - 0.5, low + 0.5];
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

const changes = (run) => run.operations.length > 0 || new Set(run.cells.filter((cell) => cell !== null)).size > 1;

function runChoice() {
  const choices = payload.runs.map((run, at) => [String(at), run.name]).filter(([at]) => changes(payload.runs[at]));
  if (choices.length < 2) return null;
  return choice("run", choices, String(state.run), (value) => {
    state.run = Number(value);
    state.step = null;
  });
}

const arrow = (edge) => edge.replace(/^(.+)<-(.+)$/, "$2 → $1");

// The probability of each operation by epoch: the mean of all edges, or every edge of one block.
function shareFigure(run) {
  if (!run.operations.length) return null;
  const blocks = [...new Set(run.choices.map(([block]) => block))];
  const block = state.edges === "mean" ? null : blocks.includes(state.edges) ? state.edges : blocks[0];
  const named = run.choices.map(([own, edge, operation], at) => ({ own, edge: arrow(edge), operation, at })).filter((one) => one.own === block);
  const cells = block === null || block === undefined
    ? run.shares.flatMap((row, at) => row.map((share, operation) => ({ epoch: run.epochs[at], edge: "", operation: run.operations[operation], share })))
    : run.mixture.flatMap((row, at) => named.filter((one) => row[one.at] !== null).map((one) => ({ epoch: run.epochs[at], edge: one.edge, operation: one.operation, share: row[one.at] })));
  const every = block !== null && block !== undefined;
  const operations = [...new Set(cells.map((cell) => cell.operation))];
  const edges = [...new Set(cells.map((cell) => cell.edge))];
  const height = every ? 70 + edges.length * (15 * operations.length + 8) : 60 + 30 * operations.length;
  const title = every ? `probability of each operation on every edge of ${block}, by epoch` : "mean probability of each operation, by epoch";
  const chooser = blocks.length ? make("div", { class: "controls" }, choice("edges",
    [...blocks.map((one) => [one, `every edge of ${one}`]), ["mean", "mean of all edges"]], block || "mean", (value) => { state.edges = value; })) : null;
  const figure = chart({
    height,
    marginLeft: 110,
    marginRight: every ? 60 : 20,
    x: { label: "epoch", type: "band", ticks: run.epochs.filter((epoch) => run.epochs.length < 15 || epoch % Math.ceil(run.epochs.length / 10) === 0) },
    y: { label: null, domain: operations },
    ...(every ? { fy: { label: null, domain: edges, padding: 0.08 } } : {}),
    color: { scheme: dark() ? "viridis" : "YlGnBu", legend: true, label: every ? "probability" : "mean probability", domain: [0, Math.max(0.5, d3.max(cells, (cell) => cell.share) || 0)] },
    marks: [Plot.cell(cells, { x: "epoch", y: "operation", ...(every ? { fy: "edge" } : {}), fill: "share", inset: 0.3, title: (cell) => `epoch ${cell.epoch}, ${cell.edge} ${cell.operation}: ${rounded(cell.share)}` })],
  }, `${title}, of ${run.name}`, title);
  return make("div", { id: "mixture" }, chooser, figure);
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
  const cell = cellFigure(run);
  const shares = shareFigure(run);
  if (!changes(run) || (!cell && !shares)) return null;
  return section("run", "The cell as it changes", make("div", { class: "controls" }, runChoice()), cell, shares);
}

// --- the end: found cells, size, collapse, tables

function foundSection() {
  if (!payload.found.length) return null;
  const cards = payload.found.map((one) => make("div", { class: "card" },
    make("p", {}, make("strong", {}, one.title)), make("p", { class: "muted" }, one.about), picture(payload.cells[one.cell])));
  return section("found", payload.found.length > 1 ? "Found cells" : "The cell", make("div", { class: "grid" }, ...cards));
}

function sizeSection() {
  const charts = payload.scatters.map((scatter) => chart({
    height: 320,
    grid: true,
    x: { label: scatter.x, type: "linear" },
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

// --- a model: its classes and its mistakes

function shareBar(share) {
  const bar = d3.create("svg").attr("class", "bar").attr("viewBox", "0 0 100 10").attr("preserveAspectRatio", "none").attr("aria-hidden", "true");
  bar.append("rect").attr("class", "track").attr("width", 100).attr("height", 10);
  bar.append("rect").attr("class", "share").attr("width", 100 * share).attr("height", 10);
  return bar.node();
}

function classSection() {
  if (!payload.classes.length) return null;
  const order = [...payload.classes].sort((one, other) => one.right / (one.tested || 1) - other.right / (other.tested || 1));
  const shown = state.every ? order : order.slice(0, CLASSES_AT_FIRST);
  const rows = shown.map((one) => [one.name, one.tested ? make("span", { class: "share-of" }, shareBar(one.right / one.tested), `${(100 * one.right / one.tested).toFixed(1)} %`) : "–",
    `${one.right} of ${one.tested}`, one.trained]);
  const more = order.length > CLASSES_AT_FIRST ? make("button", { type: "button", id: "every-class", "aria-expanded": String(state.every),
    onclick: () => { state.every = !state.every; draw(); document.getElementById("every-class").focus(); } },
  state.every ? `Show the ${CLASSES_AT_FIRST} worst classes` : `Show all ${order.length} classes`) : null;
  return section("classes", "Accuracy by class", make("p", { class: "note" }, "The worst classes first."),
    table(["class", "accuracy", "right", "training images"], rows, "table of classes"), more);
}

function mistakeSection() {
  if (!payload.classes.length) return null;
  if (!payload.mistakes.length) return section("mistakes", "Mistakes", make("p", {}, "No test image is wrong."));
  const commonest = table(["class", "called", "times"], payload.mistakes, "table of the commonest mistakes");
  return section("mistakes", "Mistakes", payload.confusion.length ? confusionFigure() : null, make("h3", {}, "The commonest"), commonest);
}

function confusionFigure() {
  const names = payload.classes.map((one) => one.name);
  const cells = payload.confusion.flatMap((row, at) => row.map((count, called) => ({ at, called, count, share: count / (d3.sum(row) || 1) })));
  const size = Math.max(28, Math.min(44, 640 / names.length));
  const short = (at) => (names[at].length > 14 ? `${names[at].slice(0, 13)}…` : names[at]);
  const figure = chart({
    width: 130 + size * names.length,
    height: 110 + size * names.length,
    marginLeft: 110,
    marginTop: 90,
    x: { label: null, axis: "top", domain: d3.range(names.length), tickFormat: short, tickRotate: -45, tickSize: 0 },
    y: { label: null, domain: d3.range(names.length), tickFormat: short, tickSize: 0 },
    color: { type: "linear", domain: [0, 1], range: dark() ? ["#1c2229", "#3f8fc9"] : ["#ffffff", "#4a90c8"] },
    marks: [
      Plot.cell(cells, { x: "called", y: "at", fill: "share", inset: 0.5, title: (cell) => `${names[cell.at]} called ${names[cell.called]}: ${cell.count}` }),
      Plot.text(cells.filter((cell) => cell.count), { x: "called", y: "at", text: "count", fill: dark() ? "#fff" : "#111", fontSize: 11 }),
    ],
  }, `how often each class (rows) was called each class (columns); the commonest mistakes are in the table below`,
  "Rows are the true classes, columns what they were called.");
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "confusion of classes" }, figure);
}

function exampleSection() {
  if (!payload.examples.length) return null;
  const word = payload.classes.length ? "called" : "predicted";
  const cards = payload.examples.map((one) => make("figure", { class: "card example" },
    one.image ? make("img", { src: one.image, alt: `${one.true}, ${word} ${one.called}`, width: 96, height: 96 }) : null,
    make("figcaption", {}, make("strong", {}, one.true), ` ${word} ${one.called}`,
      one.probability === null ? null : make("br"), one.probability === null ? null : `${(100 * one.probability).toFixed(0)} % sure`,
      one.name ? make("br") : null, one.name ? make("code", {}, one.name) : null)));
  return section("examples", "Worst examples", make("p", { class: "note" }, `${payload.classes.length ? "Wrong test" : "Test"} images, those with the largest loss first.`),
    make("div", { class: "examples" }, ...cards));
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
  if (!payload.runs[state.run] || !changes(payload.runs[state.run])) state.run = Math.max(0, payload.runs.findIndex(changes));
}

function draw() {
  prepare();
  document.title = payload.title;
  const focused = document.activeElement && document.activeElement.closest("label")?.textContent;
  const linked = payload.listing && payload.listing.rows.some((row) => row.link);
  const sections = [
    linked ? listSectionOfRuns() : null, classSection(), mistakeSection(), exampleSection(), curveSection(), healthSection(), runSection(),
    foundSection(), sizeSection(), collapseSection(), ...tableSections(), linked ? null : listSectionOfRuns(),
    listSection("findings", "Findings", payload.findings), listSection("notes", "Notes", payload.notes), commandSection(),
  ];
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

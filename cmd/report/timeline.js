// The timeline of a run: a row for each run of a task, with bars on a common axis.

const percent = (x) => x + "%";
const states = { done: "completed", open: "not ended" };
const stateOf = (row) => states[row.state] || row.state;
const titleOf = (row) => row.run || row.name;
const barOf = (kind, x, title) =>
  svg("rect", { class: kind, x: percent(x[0]), width: percent(Math.max(x[1] - x[0], 0.05)) }, svg("title", {}, title));

// textBeside returns text behind a row's bars or, where there is no space, inside or before them.
const textBeside = (row, kind, text) => {
  const [begin, end] = row.x;
  const [side, x, dx] = end < 86 ? ["behind", end, 7] : end - begin > 12 ? ["inside", end, -7] : ["before", begin, -7];
  return svg("text", { class: kind + " " + side, x: percent(x), dx, y: 17 }, text);
};

// barsOf returns the bars of a row, its waits, its requests, and marks for its events.
const barsOf = (row, inner) => {
  if (row.omitted) return [barOf("left", row.x, row.name)];
  if (row.kind === "group") return [barOf("frame " + row.state, row.x, row.name)];
  if (row.state === "skipped") return [barOf("skipped", [row.x[0], row.x[0]], "skipped")];
  const out = [barOf((inner || !row.task ? "frame " : "bar ") + row.state, row.x, row.name + ": " + row.ending)];
  if (row.kind === "listen" || row.kind === "run") out.push(barOf("wait listen", row.x, row.detail || ""));
  const timers = row.timers || [], calls = row.calls || [];
  for (const t of timers) {
    out.push(barOf("wait" + (t.retry ? " retry" : ""), t.x, t.retry ? "pauses for " + t.long + " before the next attempt" : "waits for " + t.long));
    if (!t.retry && timers.length === 1) out.push(textBeside(row, "wait", t.long));
  }
  for (const c of calls) {
    out.push(barOf("call" + (c.bad ? " bad" : ""), c.x, c.method + " " + c.url + ": " + c.label));
    if (c === last(calls)) out.push(textBeside(row, "call" + (c.bad ? " bad" : ""), c.label));
  }
  for (const m of row.marks || []) out.push(barOf("mark " + m.kind, [m.x, m.x], m.text));
  return out;
};

// spoken describes a row for screen readers.
const spoken = (row) => {
  const when = row.after + (row.until ? " to " + row.until : "");
  if (row.kind === "group") return row.name + ", " + when;
  const calls = (row.calls || []).map((c) => c.method + ": " + c.label), marks = (row.marks || []).map((m) => m.text);
  return [titleOf(row), cut(row.detail || "", 90), stateOf(row), when, ...calls, ...marks].filter(Boolean).join(", ");
};

const kindOf = (row, inner) => {
  if (row.kind === "group") return "group";
  if (!row.task && row.kind === "workflow") return "workflow";
  return inner ? "holder" : "task";
};

// labelOf returns the name of a row, which is indented by its level.
const labelOf = (row, level, around, inner) => {
  const iteration = around && around.kind === "group" ? "" : row.index; // the group says it
  const name = element("span", { class: "text", title: [titleOf(row), row.detail].join(" ").trim() },
    element("span", { class: "name" }, cut(row.name, 60)),
    iteration && element("span", { class: "iteration" }, iteration), " ",
    element("span", { class: "detail" }, cut(row.detail || "", 90)));
  const label = element("span", { class: "label" }, element("span", { class: "fold", "aria-hidden": "true" }, inner ? "▾" : ""), name);
  label.style.setProperty("--level", level);
  return label;
};

// drawRows returns the rows as the items of a tree. index is the number of the timeline on the page.
const drawRows = (data, index) => {
  const holders = new Set(data.rows.map((row) => row.parent)), levels = [], hidden = [];
  return data.rows.map((row, i) => {
    const around = data.rows[row.parent - 1], inner = holders.has(i + 1);
    levels[i] = around ? levels[row.parent - 1] + 1 : 1;
    hidden[i] = around !== undefined && (around.folded || hidden[row.parent - 1]);
    return element("div", {
      class: ["row", kindOf(row, inner), row.state, row.omitted ? "left" : "", row.differs ? "differs" : ""].join(" "),
      id: "r" + index + "-" + (i + 1), role: "treeitem", tabindex: -1, hidden: hidden[i] ? "hidden" : undefined,
      "data-row": i + 1, "data-parent": row.parent || 0, "data-ref": row.ref,
      "aria-level": levels[i], "aria-label": spoken(row), "aria-expanded": inner ? String(!row.folded) : undefined,
    }, labelOf(row, levels[i], around, inner), svg("svg", { class: "plot", "aria-hidden": "true" }, ...barsOf(row, inner)));
  });
};

// at returns an element at a place of the axis, in percent of its length.
const at = (tag, kind, x, ...children) => { const e = element(tag, { class: kind }, ...children); e.style.left = percent(x); return e; };
const spanned = (e, x) => { e.style.width = percent(x[1] - x[0]); return e; };
const titled = (e, title) => { e.title = title; return e; };

// drawAxis returns the times above the rows, the breaks in the axis, and flags for the faults.
const drawAxis = ({ ticks, breaks }, faults, high) =>
  element("div", { class: "axis" + high, "aria-hidden": "true" }, element("span", { class: "label" }, "time"), element("span", { class: "plot" },
    ...ticks.map((t) => titled(at("span", "tick" + (t.major ? " major" : ""), t.x, t.text), t.at)),
    ...breaks.map((b) => at("span", "pause", (b.x[0] + b.x[1]) / 2, b.text)),
    ...faults.map((f, i) => titled(at("span", "flag", f.x, "⚑" + (i + 1)), f.text))));

// drawLanes returns what lies behind all rows.
const drawLanes = ({ ticks, breaks, bands }, faults) => {
  const zigzag = () => svg("svg", { width: 12, height: "100%" }, svg("rect", { width: 12, height: "100%", fill: "url(#zigzag)" }));
  return element("div", { class: "lanes", "aria-hidden": "true" }, element("span", { class: "plot" },
    ...bands.map((b) => titled(spanned(at("i", "band", b.x[0]), b.x), b.text)),
    ...ticks.map((t) => at("i", "line" + (t.major ? " major" : ""), t.x)),
    ...breaks.map((b) => spanned(at("span", "pause-lane", b.x[0], zigzag()), b.x)),
    ...faults.map((f) => at("i", "faultline", f.x))));
};

const drawLegend = ({ bands }, faults) => {
  const swatch = (kind, text) => [element("i", { class: "sw " + kind }), text + " "];
  return element("span", { class: "legend" },
    ...swatch("done", "completed"), ...swatch("failed", "failed"), ...swatch("wait", "waiting"), ...swatch("cancelled", "cancelled"),
    ...(faults.length ? swatch("flag", "fault") : []), ...(bands.length ? swatch("band", "simultaneous steps in order") : []));
};

const drawTimeline = (data, index) => {
  const { axis, faults } = data, rows = drawRows(data, index);
  const high = axis.breaks.length || faults.length ? " high" : "";
  const tool = (which, text) => element("button", { type: "button", "data-fold": which }, text);
  const tools = rows.length > 1 && element("span", { class: "tools" }, tool("all", "Fold all"), tool("none", "Unfold all"));
  return element("section", { class: "timeline", "aria-label": "Timeline" },
    element("div", { class: "section-head" }, element("h2", {}, "Timeline"), drawLegend(axis, faults), tools),
    element("div", { class: "chart" + high }, drawAxis(axis, faults, high), drawLanes(axis, faults),
      element("div", { class: "rows", role: "tree", "aria-label": "Runs of tasks" }, ...rows)),
    data.omitted && element("p", { class: "note" }, data.omitted + " omitted from the chart; failed runs take precedence."));
};

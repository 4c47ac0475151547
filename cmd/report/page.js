// The page: the sections of each run, and the pane with the data of what is selected.

const all = JSON.parse(document.getElementById("data").textContent);
const pane = document.getElementById("pane"), body = document.getElementById("pane-body"), title = document.getElementById("pane-title");

// element and svg create elements. Data of a run is always set as text.
const create = (e, attributes, children) => {
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== "") e.setAttribute(key, value);
  e.append(...children.filter(Boolean));
  return e;
};
const element = (name, attributes, ...children) => create(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => create(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const runOf = (e) => e.closest(".run");
const dataOf = (run) => all[Number(run.dataset.index)];

// visible escapes characters that are invisible or change the direction of text.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
  (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

// parse reads JSON, and throws an error if the text is cut. The result of JSON.parse would have rounded
// numbers, and names that look like numbers in another order.
const parse = (text) => {
  JSON.parse(text);
  const tokens = text.match(/"(?:\\.|[^"\\])*"|[{}[\]]|[^\s"{}[\]:,]+/g); // without colons and commas
  let at = 0;
  const value = () => {
    const token = tokens[at++], holds = [];
    if ("{[".includes(token)) {
      while (!"}]".includes(tokens[at])) holds.push([token === "{" ? JSON.parse(tokens[at++]) : String(holds.length), value()]);
      at++;
    }
    return { token, holds };
  };
  return value();
};

const leaf = (label, kind, text) => element("div", { class: "leaf" }, label, element("span", { class: kind }, text));
const draw = ({ token, holds }, name, depth) => {
  const label = name === undefined ? "" : element("span", {}, element("span", { class: "k" }, visible(name)), ": ");
  if (token[0] === '"') return leaf(label, "s", visible(JSON.stringify(JSON.parse(token))));
  if (!"{[".includes(token)) return leaf(label, /[-\d]/.test(token[0]) ? "n" : "w", token);
  const [open, close, what] = token === "{" ? ["{", "}", "member"] : ["[", "]", "item"];
  if (holds.length === 0) return leaf(label, "size", open + close);
  const fold = element("details", {}, element("summary", {}, label, open + "…" + close + " ", element("span", { class: "size" }, holds.length + " " + what + (holds.length > 1 ? "s" : ""))));
  const most = 500;
  let drawn = false;
  const fill = () => {
    if (drawn) return;
    drawn = true;
    for (const [k, one] of holds.slice(0, most)) fold.append(draw(one, k, depth + 1));
    if (holds.length > most) fold.append(element("div", { class: "leaf size" }, "… " + (holds.length - most) + " more"));
  };
  fold.addEventListener("toggle", fill);
  if (depth < 2 && holds.length <= 60) { fold.open = true; fill(); }
  return fold;
};
const json = (data, index) => {
  const box = element("div", { class: "json" });
  const text = data.texts[index], size = data.sizes[index];
  try {
    box.append(draw(parse(text), undefined, 0));
  } catch {
    box.append(visible(text));
  }
  if (size) box.append(element("div", { class: "size" }, "… truncated: " + text.length.toLocaleString("en") + " of " + size.toLocaleString("en") + " bytes are in this file"));
  return box;
};

const part = (heading, ...children) => { body.append(element("h3", {}, heading), ...children.filter(Boolean)); };
const facts = (pairs) => element("dl", { class: "facts" }, ...pairs.filter((p) => p[1] !== undefined && p[1] !== "").map(([k, v]) => element("div", {}, element("dt", {}, k), element("dd", {}, String(v)))));

const showRow = (run, id) => {
  const data = dataOf(run), row = data.rows[id - 1];
  title.textContent = titleOf(row);
  body.replaceChildren(facts(row.kind === "group" ? [["kind", row.kind], ["began", row.after]] : [
    ["status", stateOf(row)], ["kind", row.kind], ["began", row.after], ["took", row.took], ["line", row.line], ["continues with", row.then],
  ]));
  if (row.detail) body.append(element("p", { class: "dim" }, row.detail));
  if (row.error) part("Error", json(data, row.error));
  for (const [heading, index] of [["Input", row.input], ["Output", row.output], ["Context", row.context]]) if (index) part(heading, json(data, index));
  if (row.calls) {
    part(row.calls.length > 1 ? row.calls.length + " requests" : "Request");
    for (const c of row.calls) {
      const box = element("div", { class: "exchange" }, element("div", {}, element("span", { class: "status" + (c.bad ? " bad" : "") }, c.label), " " + c.method + " ", element("code", {}, c.url)), element("div", { class: "dim" }, c.after + ", took " + c.took));
      if (c.problem) box.append(element("div", { class: "status bad" }, c.problem));
      if (c.request) box.append(element("div", { class: "dim" }, "request body"), json(data, c.request));
      if (c.response) box.append(element("div", { class: "dim" }, "response"), json(data, c.response));
      if (c.headers && c.headers.length) box.append(element("details", {}, element("summary", { class: "dim" }, "headers of the response (" + c.headers.length + ")"), ...c.headers.map((h) => element("div", { class: "headers" }, h))));
      body.append(box);
    }
  }
  if (row.notes) part("Timers and other events", ...row.notes.map((n) => element("p", { class: "dim" }, n)));
  const where = row.execution + ", " + row.from + (row.to && row.to !== row.from ? " to " + row.to : "");
  if (row.execution) part("Where", row.task && element("p", { class: "headers" }, row.task), element("p", { class: "headers" }, where));
  show();
};
const showTask = (run, ref, rows) => {
  const name = ref.slice(ref.indexOf(":") + 1);
  title.textContent = name.slice(name.lastIndexOf("/") + 1) || "The workflow";
  body.replaceChildren(element("p", { class: "dim" }, rows.length ? rows.length + (rows.length > 1 ? " runs" : " run") + " in the chart." : "Never reached in this run."));
  for (const row of rows.slice(0, 200)) {
    const data = dataOf(run).rows[Number(row.dataset.row) - 1];
    const button = element("button", { type: "button", class: "link" }, titleOf(data) + ", " + data.after + ", " + stateOf(data));
    button.addEventListener("click", () => choose(run, row));
    body.append(element("p", {}, button));
  }
  body.append(element("p", { class: "headers" }, name));
  show();
};
let ready = false;
const show = () => { pane.classList.toggle("shown", ready); pane.scrollTop = 0; };

// mark marks a row and its node, line and event.
const mark = (run, ref, row, event) => {
  for (const e of run.querySelectorAll(".chosen, .alike")) e.classList.remove("chosen", "alike");
  for (const e of run.querySelectorAll("[data-ref]")) {
    if (ref && e.dataset.ref === ref) e.classList.add(e.classList.contains("row") || e.tagName === "TR" ? "alike" : "chosen");
  }
  if (row) row.classList.add("chosen");
  if (event) event.classList.add("chosen");
};
const within = (e) => {
  const box = e && e.closest(".scroll");
  if (!box || window.matchMedia("print").matches) return;
  const a = e.getBoundingClientRect(), b = box.getBoundingClientRect();
  if (a.top < b.top || a.bottom > b.bottom) box.scrollTop += a.top - b.top - box.clientHeight / 3;
  if (a.left < b.left || a.right > b.right) box.scrollLeft += a.left - b.left - 40;
};
const rowsOf = (run) => [...run.querySelectorAll(".row")];
const rowAt = (run, id) => run.querySelector('.row[data-row="' + Number(id) + '"]');
const reveal = (run, ref) => {
  within(run.querySelector('.l[data-ref="' + CSS.escape(ref) + '"]'));
  within(run.querySelector('.node[data-ref="' + CSS.escape(ref) + '"]'));
};
// reach makes a row the one that the tab key goes to.
const reach = (run, row) => { for (const r of rowsOf(run)) r.tabIndex = r === row ? 0 : -1; };
const choose = (run, row, event) => {
  for (let up = row; Number(up.dataset.parent); ) { up = rowAt(run, up.dataset.parent); expand(run, up, true); }
  reach(run, row);
  mark(run, row.dataset.ref, row, event);
  if (row.dataset.ref) reveal(run, row.dataset.ref);
  showRow(run, Number(row.dataset.row));
};
const chooseRef = (run, ref) => {
  const rows = rowsOf(run).filter((r) => r.dataset.ref === ref);
  if (rows.length === 1) { choose(run, rows[0]); return; }
  mark(run, ref);
  reveal(run, ref);
  showTask(run, ref, rows);
};
const chooseEvent = (run, tr) => {
  const row = Number(tr.dataset.row) ? rowAt(run, tr.dataset.row) : null;
  mark(run, tr.dataset.ref, row, tr);
  const data = dataOf(run);
  title.textContent = "Event " + tr.cells[0].textContent + ": " + tr.cells[2].textContent;
  body.replaceChildren(facts([["after", tr.cells[1].textContent], ["time", tr.cells[1].title], ["task", tr.cells[3].textContent]]));
  if (tr.dataset.text) part("Data", json(data, Number(tr.dataset.text)));
  if (row) {
    const button = element("button", { type: "button" }, "Show its task");
    button.addEventListener("click", () => choose(run, row, tr));
    body.append(element("p", {}, button));
  }
  show();
};

// Folding.
const expand = (run, row, open) => {
  if (!row.hasAttribute("aria-expanded")) return;
  row.setAttribute("aria-expanded", String(open));
  refold(run);
};
const refold = (run) => {
  const folded = new Set();
  for (const row of rowsOf(run)) {
    const hidden = folded.has(row.dataset.parent);
    row.hidden = hidden;
    if (hidden || row.getAttribute("aria-expanded") === "false") folded.add(row.dataset.row);
  }
};
const moveTo = (run, row) => { if (row) { reach(run, row); row.focus(); } };
const step = (run, row, by) => {
  let next = row;
  do { next = by > 0 ? next.nextElementSibling : next.previousElementSibling; } while (next && next.hidden);
  moveTo(run, next);
};
const arrows = {
  ArrowDown: (run, row) => step(run, row, 1),
  ArrowUp: (run, row) => step(run, row, -1),
  ArrowRight: (run, row, open) => { if (open === "false") expand(run, row, true); else if (open) step(run, row, 1); },
  ArrowLeft: (run, row, open) => { if (open === "true") expand(run, row, false); else moveTo(run, rowAt(run, row.dataset.parent)); },
};

document.addEventListener("click", (e) => {
  const target = e.target, run = target.closest && runOf(target);
  const copy = target.closest("[data-copy]"), fold = target.closest("[data-fold]"), tab = target.closest("[data-run]"), go = target.closest("[data-goto]");
  if (copy) { copyText(copy); return; }
  if (tab) { e.preventDefault(); pick(Number(tab.dataset.run)); return; }
  if (!run) return;
  if (go) { chooseRef(run, go.dataset.goto); return; }
  if (fold) {
    for (const row of rowsOf(run)) if (row.hasAttribute("aria-expanded") && Number(row.getAttribute("aria-level")) > 1) row.setAttribute("aria-expanded", String(fold.dataset.fold === "none"));
    refold(run);
    return;
  }
  const row = target.closest(".row"), tr = target.closest(".events tbody tr:not(.gap)"), other = target.closest(".node[data-ref][tabindex], .l[data-ref]");
  if (row) {
    if (target.closest(".fold")) expand(run, row, row.getAttribute("aria-expanded") === "false");
    else choose(run, row);
  } else if (tr) chooseEvent(run, tr);
  else if (other && other.dataset.ref) chooseRef(run, other.dataset.ref);
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") { pane.classList.remove("shown"); return; }
  const run = e.target.closest && runOf(e.target);
  if (!run || e.ctrlKey || e.metaKey || e.altKey) return;
  const row = e.target.closest(".row");
  if (["Enter", " "].includes(e.key) && e.target.matches(".row, .node[tabindex], .events tbody tr")) e.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  else if (row && arrows[e.key]) arrows[e.key](run, row, row.getAttribute("aria-expanded"));
  else return;
  e.preventDefault();
});
document.getElementById("pane-close").addEventListener("click", () => pane.classList.remove("shown"));

// The source of a document, each line with the task that it belongs to.
const drawSource = (doc) => {
  const times = (n) => (n === 1 ? "once" : n.toLocaleString("en") + " times");
  const lines = doc.lines.map((text, i) => {
    const task = doc.tasks[doc.owners[i] - 1], first = task && task.line === i + 1;
    return element("span", {
      class: "l " + (!task ? "" : task.runs ? "hit" : "miss"), "data-ref": task && doc.index + ":" + task.ref, "data-line": i + 1,
      title: first ? task.name + ": " + (task.runs ? times(task.runs) : "not reached") : undefined,
    }, element("b", {}, String(i + 1)), element("u", {}, first && task.runs ? task.runs + "×" : ""), element("span", {}, text), "\n");
  });
  return element("pre", { class: "scroll", tabindex: 0 }, element("code", {}, ...lines));
};
const drawDocument = (doc, several) => {
  const of = several ? ": " + doc.name : "", picture = drawGraph(doc), reached = doc.tasks.filter((t) => t.runs).length;
  const head = (title, ...legend) => element("div", { class: "section-head" }, element("h2", {}, title + of), element("span", { class: "legend" }, ...legend));
  return element("div", { class: "pair" + (Number(picture.getAttribute("width")) > 430 ? " wide" : "") },
    element("section", { class: "graph", "aria-label": "Graph of " + doc.name }, head("Graph", element("i", { class: "sw edge" }), "edge taken ", element("i", { class: "sw never" }), "never reached"),
      element("div", { class: "scroll", tabindex: 0 }, picture)),
    element("section", { class: "source", "aria-label": "Source of " + doc.name }, head("Source", reached + " of " + doc.tasks.length + " tasks reached"), drawSource(doc)));
};

const drawEvents = (data) => {
  const row = (e) => e.omitted ? element("tr", { class: "gap" }, element("td", { colspan: 5 }, e.omitted + " not in this file: the filter does not find them")) :
    element("tr", { class: e.class + (e.differs ? " differs" : ""), tabindex: 0, "data-row": e.row || 0, "data-ref": e.ref, "data-text": e.data },
      element("td", {}, String(e.number)), element("td", { title: e.at }, e.after), element("td", {}, element("i", { class: "dot" }), e.kind), element("td", {}, e.name), element("td", {}, e.text));
  const heads = ["#", "after", "event", "task", "description"].map((text) => element("th", {}, text));
  const filter = element("label", { class: "filter" }, "Filter ", element("input", { type: "search", placeholder: "task, kind, data", autocomplete: "off", spellcheck: "false" }));
  return element("section", { class: "events", "aria-label": "Events" },
    element("div", { class: "section-head" }, element("h2", {}, "Data at each step"), element("span", { class: "legend" }, data.counted), element("span", { class: "legend found", "aria-live": "polite" }), filter),
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...data.events.map(row)))));
};

for (const run of document.querySelectorAll(".run")) {
  const data = dataOf(run);
  run.append(drawTimeline(data, run.dataset.index), ...data.documents.map((doc) => drawDocument(doc, data.documents.length > 1)), drawEvents(data));
}

for (const input of document.querySelectorAll(".filter input")) {
  input.addEventListener("input", () => {
    const run = runOf(input), data = dataOf(run), says = run.querySelector(".events .found");
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let all = 0, found = 0;
    for (const tr of run.querySelectorAll(".events tbody tr:not(.gap)")) {
      const text = (tr.textContent + " " + (tr.dataset.ref || "") + " " + data.texts[Number(tr.dataset.text || 0)]).toLowerCase();
      tr.hidden = !wanted.every((w) => text.includes(w));
      all++;
      if (!tr.hidden) found++;
    }
    const gap = run.querySelector(".events tr.gap");
    says.textContent = wanted.length ? found.toLocaleString("en") + " of " + all.toLocaleString("en") + (gap ? " in this file" : "") + " match" : "";
  });
}

const copyText = (button) => {
  const code = document.getElementById(button.dataset.copy);
  const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
  const select = () => { const range = document.createRange(); range.selectNodeContents(code); getSelection().removeAllRanges(); getSelection().addRange(range); };
  if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, select); else select();
};

// pick shows one of several runs.
const pick = (index) => {
  for (const run of document.querySelectorAll(".run")) run.hidden = Number(run.dataset.index) !== index;
  for (const tab of document.querySelectorAll(".tabs [data-run]")) { const on = Number(tab.dataset.run) === index; tab.setAttribute("aria-selected", String(on)); tab.tabIndex = on ? 0 : -1; }
  thin();
};
const tabs = document.querySelector(".tabs");
if (tabs) tabs.addEventListener("keydown", (e) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  if (!by) return;
  const list = [...tabs.children], next = list[(list.indexOf(document.activeElement) + by + list.length) % list.length];
  next.focus();
  pick(Number(next.dataset.run));
});

// thin hides labels of the axis that would overlap others.
const thin = () => {
  for (const kind of [".tick", ".pause"]) {
    for (const plot of document.querySelectorAll(".run:not([hidden]) .axis .plot")) {
      const edge = plot.getBoundingClientRect().right + 6;
      const shown = [], list = [...plot.querySelectorAll(kind)];
      for (const t of list) t.style.visibility = "";
      for (const t of [...list.filter((x) => x.classList.contains("major")), ...list.filter((x) => !x.classList.contains("major"))]) {
        const r = t.getBoundingClientRect();
        if (r.right > edge || shown.some((s) => r.left < s.right + 4 && s.left < r.right + 4)) t.style.visibility = "hidden"; else shown.push(r);
      }
    }
  }
};
addEventListener("resize", thin);
thin();

for (const run of document.querySelectorAll(".run")) { const first = run.querySelector(".row"); if (first) first.tabIndex = 0; }
// First select what went wrong.
const first = document.querySelector(".run:not([hidden])");
if (first && !matchMedia("(max-width: 900px)").matches) {
  const wrong = first.querySelector(".row.differs") || [...first.querySelectorAll(".row.task.failed")].pop();
  const problem = first.querySelector(".problem, .diverges");
  const row = wrong && problem ? wrong : first.querySelector(".row");
  if (row) choose(first, row);
}
ready = true;

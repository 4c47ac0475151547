// The graph of a workflow. A node is a box; a task with inner tasks is a frame, with its node
// as the head and the join of a fork as the foot. An edge runs straight down where it can,
// otherwise along a lane on the right, or back to the head of its frame on the left.

const margin = { node: 26, line: 15, choice: 19, narrow: 96, wide: 290, between: 26, beside: 22, padding: 14, lane: 11, aside: 34 };

// measured returns the width of text in the fonts of the graph.
const measured = (() => {
  const pen = document.createElement("canvas").getContext("2d");
  const fonts = { name: "600 12px " + getComputedStyle(document.body).fontFamily, detail: "600 11px " + getComputedStyle(document.documentElement).getPropertyValue("--mono") };
  return (text, font) => { pen.font = fonts[font]; return Math.ceil(pen.measureText(text).width); };
})();

const cut = (text, most = 36) => {
  const characters = [...text.trim().replace(/\s+/g, " ")];
  return characters.length > most ? characters.slice(0, most - 1).join("") + "…" : characters.join("");
};
const taskOf = (node) => node.split("#")[0];
const last = (list) => list[list.length - 1];

// layout places the nodes, and returns the frames and the edges with their points.
const layout = (graph) => {
  const groups = new Map(graph.groups.map((g) => [g.id, g])), boxes = new Map(), frames = [];
  const edgesFrom = (id) => graph.edges.filter((e) => e.from === id);

  const textOf = (n) => {
    switch (n.kind) {
      case "end": case "faulted": return [n.kind];
      case "if": return ["if " + cut(n.detail || "")];
      case "catch": return ["catch", cut(n.detail || ""), ...edgesFrom(n.id).filter((e) => e.kind === "retry").map((e) => cut(e.label))];
      default: return [n.name, n.detail].filter(Boolean).map((text) => cut(text));
    }
  };
  const boxOf = (n) => {
    const box = { node: n, lines: textOf(n), cases: [], state: n.state };
    // The number of runs needs space on the right of the name, and as much on the left.
    box.w = Math.max(margin.narrow, ...box.lines.map((text, i) => (i ? measured(text, "detail") + 24 : measured(text, "name") + 64)));
    box.h = margin.node + margin.line * Math.max(box.lines.length - 1, 0);
    if (n.kind === "switch") {
      box.h += 4;
      for (const edge of edgesFrom(n.id)) {
        const text = cut(edge.label || "");
        box.w = Math.max(box.w, measured(text, "detail") + 34);
        box.cases.push({ edge, text, y: box.h + margin.choice / 2 });
        box.h += margin.choice;
      }
      box.h += 5;
    }
    return box;
  };

  // The frame of a group contains its nodes and inner frames in the order of the document.
  const frameOf = (id, group) => {
    const f = { group, inside: [], channel: { taken: [] }, left: false, state: group && group.state };
    const seen = new Set();
    for (const n of graph.nodes) {
      if ((n.group || "") === id) {
        const box = boxOf(n);
        boxes.set(n.id, box);
        box.around = f;
        if (n.id === id) f.head = box;
        else if (n.kind === "join") f.foot = box;
        else { box.w = Math.min(box.w, margin.wide); f.inside.push(box); }
        continue;
      }
      let inner = groups.get(n.group);
      while (inner && (inner.parent || "") !== id) inner = groups.get(inner.parent);
      if (inner && !seen.has(inner.id)) { seen.add(inner.id); f.inside.push(frameOf(inner.id, inner)); }
    }
    if (group) frames.push(f);
    // The branches of a fork are side by side, as are the tasks and the handler of a try.
    const branches = new Set(group && group.kind === "fork" ? edgesFrom(id).map((e) => e.to) : []);
    const begins = (b) => branches.has(firstOf(b)) || (group && group.kind === "try" && b.node && b.node.kind === "catch");
    f.columns = [];
    for (const b of f.inside) {
      if (!f.columns.length || begins(b)) f.columns.push({ boxes: [], taken: [] });
      const column = last(f.columns);
      Object.assign(b, { around: f, column, index: column.boxes.length });
      column.boxes.push(b);
    }
    return f;
  };
  const firstOf = (b) => b.node ? b.node.id : b.head ? b.head.node.id : b.inside.length ? firstOf(b.inside[0]) : "";

  const atRim = (b) => b === b.around.head || b === b.around.foot;
  const pathTo = (b) => (b ? [...pathTo(b.around), b] : []);
  // meet returns the innermost frame around two boxes, and the parts of it that contain them.
  const meet = (from, to) => {
    const a = pathTo(from), b = pathTo(to);
    let i = 0;
    while (i < a.length - 1 && i < b.length - 1 && a[i + 1] === b[i + 1]) i++;
    return [a[i], a[Math.min(i + 1, a.length - 1)], b[Math.min(i + 1, b.length - 1)]];
  };
  // An edge can leave a part of a frame downwards if nothing is below its node, and if it is
  // not a case of a switch.
  const leavesBelow = (box, part) => {
    if (box.cases.length && box !== part) return false;
    for (let b = box; b !== part; b = b.around) {
      if (atRim(b)) continue; // from the head of a frame, the edge continues below the frame
      if (b !== last(b.column.boxes) || b.around.foot) return false;
    }
    return true;
  };
  // routeOf determines the course of an edge, before the boxes have positions.
  const routeOf = (edge) => {
    const from = boxes.get(edge.from), to = boxes.get(edge.to);
    if (to === to.around.head && pathTo(from).includes(to.around)) {
      if (edge.kind === "retry") return { course: "retry" };
      to.around.left = true;
      const [, part] = meet(from, to);
      return { course: "back", frame: to.around, part };
    }
    const [frame, a, b] = meet(from, to);
    if (from === frame.head || to === frame.foot) return { course: "down", frame };
    if (to.node.kind === "catch" && frame.columns.indexOf(a.column) < frame.columns.indexOf(b.column)) return { course: "handler" };
    if (a.column === b.column && b.index === a.index + 1 && leavesBelow(from, a)) return { course: "down", frame };
    const channel = a.column === b.column ? a.column : frame.channel;
    const rows = [Math.min(a.index || 0, b.index || 0), Math.max(a.index || 0, b.index || 0)];
    let lane = channel.taken.findIndex((others) => others.every((o) => o[1] < rows[0] || rows[1] < o[0]));
    if (lane < 0) lane = channel.taken.push([]) - 1;
    channel.taken[lane].push(rows);
    return { course: "aside", frame, channel, lane };
  };

  const spaceOf = (f) => (f.group && f.group.kind === "try" ? margin.aside : margin.beside);
  const leftOf = (f) => (f.left ? 2 * margin.lane : 0);
  const measure = (f) => {
    let height = 0;
    f.wide = spaceOf(f) * Math.max(f.columns.length - 1, 0);
    for (const column of f.columns) {
      for (const b of column.boxes) if (!b.node) measure(b);
      column.w = Math.max(...column.boxes.map((b) => b.w));
      f.wide += column.w + column.taken.length * margin.lane;
      height = Math.max(height, column.boxes.reduce((sum, b) => sum + b.h + margin.between, -margin.between));
    }
    const title = f.head ? f.head.w : f.group ? measured(cut(f.group.name), "name") + 2 * margin.padding : 0;
    f.w = Math.max(f.wide + 2 * margin.padding + f.channel.taken.length * margin.lane + leftOf(f), title, f.foot ? f.foot.w : 0);
    f.h = height + 2 * margin.padding + (f.head ? f.head.h + margin.between - margin.padding : f.group ? margin.line : 0) + (f.foot ? f.foot.h + margin.between - margin.padding : 0);
  };
  const place = (b, x, y) => {
    Object.assign(b, { x, y });
    if (b.node) return;
    let top = y + margin.padding + (b.group ? margin.line : 0);
    if (b.head) {
      b.head.w = b.w;
      place(b.head, x, y);
      top = y + b.head.h + margin.between;
    }
    let at = x + leftOf(b) + (b.w - b.channel.taken.length * margin.lane - leftOf(b) - b.wide) / 2;
    for (const column of b.columns) {
      let down = top;
      for (const one of column.boxes) {
        place(one, at + (column.w - one.w) / 2, down);
        down += one.h + margin.between;
      }
      column.right = at + column.w;
      at = column.right + column.taken.length * margin.lane + spaceOf(b);
    }
    if (b.foot) {
      b.foot.w = b.w;
      place(b.foot, x, y + b.h - b.foot.h);
    }
  };

  const middle = (b) => b.x + b.w / 2;
  const bottom = (b) => b.y + b.h;
  const exit = (b) => bottom(b === b.around.head ? b.around : b);
  const draw = ({ edge, course, frame, part, channel, lane }) => {
    const from = boxes.get(edge.from), to = boxes.get(edge.to);
    const out = { edge, label: cut(edge.label || "") };
    const text = (x, y, before) => Object.assign(out, { x, y, before });
    if (course === "retry") {
      const x = middle(from) + 18; // beside the edge to the handler
      return Object.assign(out, { points: [[x, from.y], [x, bottom(to)]], label: "" });
    }
    if (course === "handler") {
      const x = to.x - margin.aside / 2;
      return Object.assign(out, { points: [[from.x + from.w, from.y + from.h / 2], [x, from.y + from.h / 2], [x, to.y + to.h / 2], [to.x, to.y + to.h / 2]], label: "" });
    }
    if (course === "back") {
      const x = frame.x + margin.lane;
      const down = (leavesBelow(from, part) ? bottom(part) : exit(from)) + margin.between / 3;
      out.points = [[middle(from), exit(from)], [middle(from), down], [x, down], [x, bottom(to)]];
      return text(middle(from) - 8, down - 3, true); // above the line
    }
    if (course === "aside") {
      const choice = from.cases.find((c) => c.edge === edge);
      const x = from === from.around.head ? from.around.x + from.around.w : from.x + from.w;
      const y = from.y + (choice ? choice.y : from.h / 2), end = to.y + Math.min(to.h, margin.node) / 2;
      const across = channel === frame.channel ? frame.x + frame.w - margin.padding - margin.lane * (channel.taken.length - 1 - lane) : channel.right + margin.lane * (lane + 1);
      out.points = [[x, y], [across, y], [across, end], [to.x + to.w, end]];
      return text(x + 5, y - 4); // above the line
    }
    let x = middle(from), y = exit(from), end = middle(to);
    if (from === frame.head) { // into its frame
      x = end = middle(to) - (to.node.kind === "catch" ? 18 : 0); // beside the edge back
      y = bottom(from);
    } else if (to === frame.foot) end = x;
    if (Math.abs(x - end) < 3) { // too close for a bend
      out.points = [[end, y], [end, to.y]];
      return to.node.kind === "catch" ? text(end - 6, (y + to.y) / 2 + 4, true) : text(end + 6, (y + to.y) / 2 + 4);
    }
    const turn = to.y - margin.between / 2;
    out.points = [[x, y], [x, turn], [end, turn], [end, to.y]];
    return text(x + 6, y + 12);
  };

  const root = frameOf("", null);
  const routes = graph.edges.map((edge) => ({ edge, ...routeOf(edge) }));
  measure(root);
  place(root, 0, 0);
  return { width: Math.ceil(root.w), height: Math.ceil(root.h), frames: frames.reverse(), boxes: graph.nodes.map((n) => boxes.get(n.id)), edges: routes.map(draw) };
};

// rounded returns the path through points, with rounded corners.
const rounded = (points) => {
  const far = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]);
  const towards = (a, b, by) => [a[0] + Math.sign(b[0] - a[0]) * by, a[1] + Math.sign(b[1] - a[1]) * by];
  let path = "M" + points[0];
  for (let i = 1; i < points.length - 1; i++) {
    const [before, p, after] = points.slice(i - 1, i + 2);
    const corner = Math.min(7, far(before, p) / 2, far(p, after) / 2);
    path += "L" + towards(p, before, corner) + "Q" + p + " " + towards(p, after, corner);
  }
  return path + "L" + last(points);
};
// besideLongest returns a position beside the longest segment through points.
const besideLongest = (points) => {
  let most = -1, out;
  for (let i = 1; i < points.length; i++) {
    const [a, b] = points.slice(i - 1, i + 1), long = Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]);
    if (long > most) {
      most = long;
      out = { x: (a[0] + b[0]) / 2 + 4, y: (a[1] + b[1]) / 2 + (a[1] === b[1] ? 11 : 4) }; // below it: there may be a node above
    }
  }
  return out;
};

// drawGraph returns the graph of a document as SVG, with the path of the run.
const drawGraph = (doc) => {
  const { width, height, frames, boxes, edges } = layout(doc);
  const many = (n) => n.toLocaleString("en") + "×";
  const reached = doc.nodes.filter((n) => n.state !== "never").length;
  const out = svg("svg", {
    class: "picture", role: "group", "aria-label": "The graph of " + doc.name + ": " + reached + " of " + doc.nodes.length + " nodes reached.",
    style: "min-width:" + Math.round(width * 0.7) + "px", width, height, viewBox: "0 0 " + width + " " + height,
  });
  for (const f of frames) {
    out.append(svg("rect", { class: "group " + f.state, x: f.x, y: f.y, width: f.w, height: f.h, rx: 8 }));
    if (!f.head) out.append(svg("text", { class: "group-title", x: f.x + 10, y: f.y + 17 }, cut(f.group.name)));
  }
  for (const { edge, points } of edges) {
    const tip = !edge.times ? "" : edge.kind === "error" ? "-error" : "-taken";
    out.append(svg("path", { class: "edge " + edge.kind + (edge.times ? " taken" : ""), d: rounded(points), "marker-end": "url(#tip" + tip + ")" }));
  }
  for (const b of boxes) out.append(drawNode(doc, b, many));
  for (const { edge, points, label, x, y, before } of edges) {
    const several = edge.times > 1 ? many(edge.times) : "";
    if (label && !boxes.some((b) => b.cases.some((c) => c.edge === edge))) { // the node of a switch contains its cases
      out.append(svg("text", { class: "edge-label" + (edge.times ? " taken" : ""), "text-anchor": before ? "end" : "start", x, y }, [label, several].filter(Boolean).join(" ")));
    } else if (several && doc.nodes.find((n) => n.id === edge.to).runs !== edge.times) {
      out.append(svg("text", { class: "edge-count", ...besideLongest(points) }, several));
    }
  }
  return out;
};

const drawNode = (doc, b, many) => {
  const n = b.node, end = ["start", "end", "faulted"].includes(n.kind), head = b === b.around.head || b === b.around.foot;
  const ref = n.kind === "start" ? doc.index + ":" : end ? undefined : doc.index + ":" + taskOf(n.id);
  const g = svg("g", { class: ["node", n.kind, n.state, head ? "head" : ""].join(" "), "data-ref": ref, tabindex: end ? undefined : 0, role: end ? undefined : "button" },
    svg("title", {}, [n.name, n.detail].filter(Boolean).join(" ")), svg("rect", { x: b.x, y: b.y, width: b.w, height: b.h, rx: end ? b.h / 2 : 6 }));
  b.lines.forEach((text, i) => g.append(svg("text", { class: i ? "detail" : "name", "text-anchor": "middle", x: b.x + b.w / 2, y: b.y + 17 + i * margin.line }, text)));
  if (b.cases.length) g.append(svg("path", { class: "rule", d: "M" + b.x + " " + (b.y + b.cases[0].y - margin.choice / 2 - 1) + "h" + b.w }));
  for (const c of b.cases) g.append(svg("text", { class: "case" + (c.edge.times ? " taken" : ""), "text-anchor": "end", x: b.x + b.w - 10, y: b.y + c.y + 4 }, c.text));
  if (n.runs > 1) { // on the corner, since inside the box it would cover a long name
    const text = many(n.runs), width = 7 * text.length + 6;
    g.append(svg("rect", { class: "badge", x: b.x + b.w + 4 - width, y: b.y - 7, width, height: 14, rx: 7 }), svg("text", { class: "count", x: b.x + b.w + 7 - width, y: b.y + 4 }, text));
  }
  return g;
};

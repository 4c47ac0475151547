package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/history"
)

//go:embed patterns.svg
var patterns string

//go:embed page.css
var styleText string

//go:embed page.js
var pageScript string

//go:embed timeline.js
var timelineScript string

//go:embed graph.js
var graphScript string

// Write writes the page. Only constants of this package and JSON are written raw; everything
// else is escaped.
func (rep *Report) Write(w io.Writer) error {
	script := graphScript + timelineScript + pageScript
	sum := sha256.Sum256([]byte(script))
	// The page may run only its own script, and load nothing.
	policy := "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'"
	title := rep.title()
	runs := g.Group{}
	var all []runData
	for i, r := range rep.Runs {
		node, data := r.view(i)
		runs, all = append(runs, node), append(all, data)
	}
	page := h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content(policy)),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("referrer"), h.Content("no-referrer")),
			h.Meta(h.Name("generator"), h.Content("flunq "+rep.Version)),
			h.TitleEl(g.Text(title+": "+rep.Verdict.Text)),
			h.StyleEl(g.Raw(styleText)),
			h.NoScript(h.StyleEl(g.Raw("#pane, .tabs { display: none !important } .body { display: block } .run[hidden] { display: block !important }"))),
		),
		h.Body(
			g.Raw(patterns),
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the timeline")),
			rep.header(title),
			h.Main(h.ID("main"),
				rep.findings(), rep.hints(), rep.files(), rep.tabs(),
				h.Div(h.Class("body"), h.Div(h.Class("runs"), runs), pane()),
			),
			h.Footer(g.Textf("flunq %s. This file is self-contained.", rep.Version)),
			h.Script(h.Type("application/json"), h.ID("data"), g.Raw(string(encode(all)))),
			h.Script(h.Type("module"), g.Raw(script)),
		),
	))
	out := bufio.NewWriter(w)
	if err := errors.Join(page.Render(out), out.Flush()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// title returns the title of the page.
func (rep *Report) title() string {
	for _, r := range rep.Runs {
		if len(r.docs) > 0 {
			return excerpt.Escaped(r.docs[0].def.Document.Name)
		}
	}
	return "flunq " + rep.Verb
}

func (rep *Report) header(title string) g.Node {
	return h.Header(
		h.Div(h.Class("top"), h.H1(g.Text(title)), rep.Verdict.node(), h.Span(h.Class("verb"), g.Text("flunq "+rep.Verb))),
		g.If(len(rep.Facts) > 0, facts("facts", rep.Facts)),
		g.If(rep.Command != "", again("command", rep.Command)),
		notes(rep.Notes),
	)
}

// findings returns the findings of a search.
func (rep *Report) findings() g.Node {
	if len(rep.Findings) == 0 {
		return nil
	}
	section := g.Group{h.Class("findings"), h.Aria("label", "Findings")}
	for i, f := range rep.Findings {
		number := strconv.Itoa(i + 1)
		section = append(section, h.Article(h.Class("finding "+string(f.Rating)),
			h.H2(h.Span(h.Class("number"), g.Text(number)), g.Text(" "+f.Heading+": "+f.Rule)),
			g.If(f.Detail != "", h.P(h.Class("detail"), g.Text(f.Detail))),
			h.P(g.Text(f.Meaning)),
			h.P(h.Class("dim"), g.Text(f.Counts)),
			g.If(len(f.Sides) > 0, h.Div(h.Class("sides"), g.Map(f.Sides, Side.node))),
			g.If(len(f.Story) > 0, g.Group{h.H3(g.Text("What happened")), h.Pre(h.Class("story"), h.TabIndex("0"), g.Map(f.Story, Line.node))}),
			g.If(len(f.Differ) > 0, table("differ", []string{"value", "usually", "here"}, g.Map(f.Differ, Change.node))),
			again("again"+strconv.Itoa(i), f.Repeat),
			rep.links(f.Runs),
		))
	}
	return h.Section(section)
}

func (s Side) node() g.Node {
	return h.Div(h.Class("side"), h.H3(g.Text(s.Head)), h.Ol(g.Map(s.Steps, func(step Step) g.Node {
		at := h.Span(h.Class("at"), g.Text(step.At))
		if step.Marked {
			return h.Li(h.Class("marked"), at, g.Text(" "), h.Mark(g.Text(step.Text)))
		}
		return h.Li(at, g.Text(" "+step.Text))
	})))
}

func (l Line) node() g.Node { return highlighted(l.Fault, l.Text) }

func (c Change) node() g.Node {
	return h.Tr(h.Td(g.Text(c.Path)), h.Td(h.Code(g.Text(c.Usual))), h.Td(h.Code(g.Text(c.Here))))
}

// links returns links to the runs that show a finding.
func (rep *Report) links(runs []int) g.Node {
	if len(rep.Runs) < 2 || len(runs) == 0 {
		return nil
	}
	text := "The run below: "
	if len(runs) > 1 {
		text = "The runs below: "
	}
	return h.P(h.Class("dim"), g.Text(text), g.Map(runs, func(i int) g.Node {
		index := strconv.Itoa(i)
		return g.Group{h.A(h.Href("#run"+index), h.Data("run", index), g.Text(excerpt.Escaped(rep.Runs[i].Name))), g.Text(" ")}
	}))
}

// hints returns the hints of a search.
func (rep *Report) hints() g.Node {
	return g.If(len(rep.Hints) > 0, h.Section(h.Class("hints"), h.Aria("label", "Hints"), h.H2(g.Text("Hints")), h.Ul(items(rep.Hints))))
}

// files returns the replayed files.
func (rep *Report) files() g.Node {
	return g.If(len(rep.Files) > 0, h.Section(h.Class("files"), h.Aria("label", "Recordings"), h.H2(g.Text("Recordings")),
		table("", []string{"recording", "result", ""}, g.Map(rep.Files, func(f File) g.Node {
			return h.Tr(h.Td(g.Text(f.Name)), h.Td(f.Verdict.node()), h.Td(g.Text(f.Text)))
		}))))
}

// tabs returns the tabs that choose one of several runs.
func (rep *Report) tabs() g.Node {
	if len(rep.Runs) < 2 {
		return nil
	}
	list := g.Group{h.Class("tabs"), h.Role("tablist"), h.Aria("label", "Runs")}
	for i, r := range rep.Runs {
		index := strconv.Itoa(i)
		list = append(list, h.Button(h.Type("button"), h.Role("tab"), h.ID("tab"+index), h.Data("run", index), h.Aria("controls", "run"+index),
			h.Aria("selected", strconv.FormatBool(i == 0)), g.If(i > 0, h.TabIndex("-1")), g.Text(excerpt.Escaped(r.Name))))
	}
	return h.Div(list)
}

// pane returns the place where the script shows the selection.
func pane() g.Node {
	return h.Aside(h.ID("pane"), h.Aria("label", "Data of the selection"), h.TabIndex("-1"),
		h.Div(h.Class("pane-head"), h.H2(h.ID("pane-title"), g.Text("Data")), h.Button(h.Type("button"), h.ID("pane-close"), h.Aria("label", "Close"), g.Text("×"))),
		h.Div(h.ID("pane-body"), h.Aria("live", "polite"),
			h.P(h.Class("dim"), g.Text("Select a bar, a node of the graph, a line of the source or an event to see its input and output."))),
	)
}

// view returns the static part of a run, and the data from which the script draws the rest.
func (r *Recording) view(index int) (g.Node, runData) {
	r.finish()
	data, truncated := r.data()
	var faults []string
	for _, f := range data.Faults {
		faults = append(faults, f.Text)
	}
	remarks := slices.Clone(r.Notes)
	if r.head.Results == "history" {
		remarks = append(remarks, "It ran on a real Redis, whose histories contain the results of calls but not their requests and responses.")
	}
	if truncated > 0 {
		remarks = append(remarks, fmt.Sprintf("%s values are truncated: a value may have %d KiB, all together %d MiB.",
			history.Number(truncated), maxOfValue>>10, maxOfPage>>20)) // KiB and MiB
	}
	name, number := excerpt.Escaped(r.Name), strconv.Itoa(index)
	return h.Div(h.Class("run"), h.ID("run"+number), h.Data("index", number), g.If(name != "", h.Aria("label", name)), g.If(index > 0, g.Attr("hidden")),
		g.If(name != "", h.H2(h.Class("run-name"), g.Text(name))),
		facts("facts run-facts", r.facts()),
		g.Iff(r.err != nil, func() g.Node {
			return h.P(h.Class("note bad"), g.Text("The rest of this recording could not be read: "+r.err.Error()))
		}),
		notes(remarks),
		r.Difference.node(),
		r.problem(),
		g.If(len(faults) > 0, h.Section(h.Class("faults"), h.Aria("label", "Faults"), h.H2(g.Text("Faults")), h.Ol(items(faults)))),
		h.NoScript(h.P(h.Class("note bad"),
			g.Text("A script in this file draws the timeline, the graph and the events. Allow it to run, or open the file in another browser."))),
	), data
}

func (d *Difference) node() g.Node {
	if d == nil {
		return nil
	}
	side := func(head, text, value string) g.Node {
		return h.Div(h.Class("side"), h.H3(g.Text(head)), h.P(g.Text(text)), g.If(d.Path != "", h.Pre(g.Text(value))))
	}
	return h.Section(h.Class("diverges"), h.Aria("label", "Where the replay differs"),
		h.H2(g.Text("Where it differs")),
		h.P(g.Text(d.Where)),
		h.Div(h.Class("sides"), side("recorded", d.Recorded, d.RecordedValue), side(d.Now, d.Replayed, d.ReplayedValue)),
		g.If(d.Path != "", h.P(g.Text("The first difference is at "), h.Code(g.Text(d.Path)), g.Text("."))),
		g.Map(d.Frames, func(f Frame) g.Node {
			return h.Pre(h.Class("frame"), h.B(g.Text(f.Place)), g.Text("\n"), g.Map(f.Lines, func(l FrameLine) g.Node {
				return highlighted(l.Marked, fmt.Sprintf("%4d | %s", l.Number, l.Text))
			}))
		}),
		g.If(d.Hint != "", h.P(h.Class("dim"), g.Text(d.Hint))),
	)
}

// problem returns the error that ended the run.
func (r *Recording) problem() g.Node {
	if r.result == nil || r.result.Error == nil {
		return nil
	}
	p := r.result.Error
	title := cmp.Or(p.Title, p.Type)
	return h.Section(h.Class("problem"), h.Aria("label", "The error"),
		h.H2(g.Text(excerpt.Escaped(fmt.Sprintf("%s (status %d)", title, p.Status)))),
		h.P(h.Class("what"), g.Text(excerpt.Escaped(p.Detail))),
		h.Dl(h.Class("facts"),
			fact("type", g.Text(excerpt.Escaped(p.Type))),
			g.If(p.Instance != "", fact("at", h.Button(h.Type("button"), h.Class("link"), h.Data("goto", "0:"+p.Instance), g.Text(excerpt.Escaped(p.Instance))))),
		),
	)
}

func (v Verdict) node() g.Node { return h.Span(h.Class("verdict "+string(v.Rating)), g.Text(v.Text)) }

func facts(class string, list []Fact) g.Node {
	return h.Dl(h.Class(class), g.Map(list, func(f Fact) g.Node { return fact(f.Name, g.Text(f.Value)) }))
}

func fact(name string, value g.Node) g.Node { return h.Div(h.Dt(g.Text(name)), h.Dd(value)) }

// again returns a command line with a button that copies it.
func again(id, command string) g.Node {
	return h.Div(h.Class("again"), h.Span(h.Class("what"), g.Text("Run it again")), h.Code(h.ID(id), g.Text(command)),
		h.Button(h.Type("button"), h.Data("copy", id), g.Text("Copy")))
}

func notes(texts []string) g.Node {
	return g.Map(texts, func(text string) g.Node { return h.P(h.Class("note"), g.Text(text)) })
}

func items(texts []string) g.Node {
	return g.Map(texts, func(text string) g.Node { return h.Li(g.Text(text)) })
}

func table(class string, heads []string, rows g.Node) g.Node {
	return h.Table(g.If(class != "", h.Class(class)),
		h.THead(h.Tr(g.Map(heads, func(head string) g.Node { return h.Th(g.Text(head)) }))), h.TBody(rows))
}

// highlighted returns a line of a pre element.
func highlighted(on bool, text string) g.Node {
	return h.Span(g.If(on, h.Class("highlighted")), g.Text(text+"\n"))
}

// facts returns a summary of the run.
func (r *Recording) facts() []Fact {
	if len(r.docs) == 0 {
		return nil
	}
	doc := r.docs[0].def.Document
	status, _ := r.ended()
	out := []Fact{
		{"workflow", doc.Namespace + "." + doc.Name + " " + doc.Version},
		{"status", status},
		{"execution", r.head.ID},
		{"time", r.head.Start.UTC().Format("2006-01-02 15:04:05") + " to " + r.last.UTC().Format("2006-01-02 15:04:05") +
			" UTC (" + history.Duration(r.last.Sub(r.head.Start)) + ")"},
		{"seed", strconv.FormatUint(r.head.Seed, 10)},
		{"tasks", history.Number(r.tasks)},
		{"events", history.Number(len(r.events))},
	}
	if r.head.Results == "history" {
		out[4] = Fact{"seed", "none: it ran on a real Redis"}
	}
	if len(r.faults) > 0 {
		out = append(out, Fact{"faults", strconv.Itoa(len(r.faults))})
	}
	for i := range out {
		out[i].Value = excerpt.Escaped(out[i].Value)
	}
	return out
}

// ended describes how the run ended.
func (r *Recording) ended() (string, Rating) {
	if r.result == nil {
		return "not ended", Careful
	}
	switch r.result.Status {
	case "completed":
		return "completed", Good
	case "faulted":
		return "faulted", Bad
	case "cancelled":
		return "cancelled", Careful
	}
	if r.result.Stop != "" {
		return strings.TrimSpace(r.result.Status + ", stopped: " + string(r.result.Stop)), Careful
	}
	return r.result.Status, Careful
}

// Ended returns the verdict on how the run ended.
func (r *Recording) Ended() Verdict {
	r.finish()
	text, rating := r.ended()
	return Verdict{text, rating}
}

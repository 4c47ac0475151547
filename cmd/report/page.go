package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/history"
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

//go:embed page.js
var scriptText string

// pageView is the data of the page's template.
type pageView struct {
	Report

	Title  string
	Runs   []*runView
	Style  template.CSS
	Script template.JS
	Policy string
	Data   template.JS
	Wide   bool // there are several runs
}

// runView is a run for the page's template.
type runView struct {
	Index     int
	Name      string
	Facts     []Fact
	Notes     []string
	Problem   *problemView
	Broken    string
	Chart     chartView
	Documents []*documentView
	Events    eventsView
	Faults    []flagView
	Diverges  *Difference
}

// problemView is the error that ended a run.
type problemView struct{ Title, Detail, Type, Instance, Ref string }

// documentView is a workflow and the path through it.
type documentView struct {
	Name    string
	Picture pictureView
	Lines   []lineView
	Reached int
	All     int
	Open    bool
}

// Write writes the page.
func (rep *Report) Write(w io.Writer) error {
	page, err := template.New("report").Funcs(template.FuncMap{"inc": func(n int) int { return n + 1 }}).Parse(pageText)
	if err != nil {
		panic("report: the page: " + err.Error())
	}
	sum := sha256.Sum256([]byte(scriptText))
	view := pageView{
		Report: *rep, Style: template.CSS(styleText), Script: template.JS(scriptText),
		// The page may run its own script and load nothing.
		Policy: "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'",
	}
	var all []pageData
	for i, r := range rep.Runs {
		v, data := r.view(i)
		view.Runs = append(view.Runs, v)
		all = append(all, data)
	}
	view.Wide = len(view.Runs) > 1
	view.Title = rep.title()
	view.Data = template.JS(encode(all))
	if err := page.Execute(w, view); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// title returns the title of the page.
func (rep *Report) title() string {
	for _, r := range rep.Runs {
		if len(r.docs) > 0 {
			return clean(r.docs[0].def.Document.Name)
		}
	}
	return "flunq " + rep.Verb
}

// view returns a run for the template, and its data for the script.
func (r *Recording) view(index int) (*runView, pageData) {
	r.finish()
	rows, left := r.chartRows()
	v := &runView{Index: index, Name: clean(r.Name), Diverges: r.Difference, Chart: r.chart(rows, left)}
	if r.err != nil {
		v.Broken = r.err.Error()
	}
	v.Problem = r.problem()
	for _, d := range r.docs {
		v.Documents = append(v.Documents, r.document(d))
	}
	v.Faults = v.Chart.Flags
	p := &pool{known: map[string]int{}}
	data := r.data(rows, p)
	v.Events = r.list(p)
	data.Texts, data.Sizes = p.texts, p.sizes
	v.Facts = r.facts()
	v.Notes = append(v.Notes, r.Notes...)
	if r.head.Results == "history" {
		v.Notes = append(v.Notes, "It ran on a real Redis, whose histories contain the results of calls but not their requests and responses.")
	}
	if p.cut > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s values are truncated: a value may have %d KiB, all together %d MiB.",
			history.Number(p.cut), maxOfValue>>10, maxOfPage>>20)) // KiB and MiB
	}
	return v, data
}

// document returns a workflow for the template.
func (r *Recording) document(d *document) *documentView {
	p := r.pathOf(d)
	v := &documentView{Name: clean(d.def.Document.Name + " " + d.def.Document.Version), Picture: p.picture(d), Lines: p.lines(d)}
	for _, t := range d.def.Tasks() {
		v.All++
		if count := p.nodes[t.Ref]; count != nil && count.runs > 0 {
			v.Reached++
		}
	}
	v.Open = d.index == 0 || v.Reached > 0
	return v
}

// problem returns the error that ended the run.
func (r *Recording) problem() *problemView {
	if r.result == nil || r.result.Error == nil {
		return nil
	}
	p := r.result.Error
	title := p.Title
	if title == "" {
		title = p.Type
	}
	return &problemView{
		Title: clean(fmt.Sprintf("%s (status %d)", title, p.Status)), Detail: clean(p.Detail), Type: clean(p.Type),
		Instance: clean(p.Instance), Ref: "0:" + p.Instance,
	}
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
			" (" + history.Duration(r.last.Sub(r.head.Start)) + ")"},
		{"seed", strconv.FormatUint(r.head.Seed, 10)},
		{"tasks", history.Number(r.tasks) + ", " + history.Count(r.history, "event")},
	}
	if r.head.Results == "history" {
		out[4] = Fact{"seed", "none: it ran on a real Redis"}
	}
	if len(r.faults) > 0 {
		out = append(out, Fact{"faults", strconv.Itoa(len(r.faults))})
	}
	for i := range out {
		out[i].Value = clean(out[i].Value)
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

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
var pageScript string

//go:embed timeline.js
var timelineScript string

//go:embed graph.js
var graphScript string

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

// runView is a run for the page's template, without what the script draws.
type runView struct {
	Index      int
	Name       string
	Facts      []Fact
	Notes      []string
	Problem    *problemView
	Broken     string
	Faults     []string
	Difference *Difference
}

// problemView is the error that ended a run.
type problemView struct{ Title, Detail, Type, Instance, Ref string }

// Write writes the page.
func (rep *Report) Write(w io.Writer) error {
	page, err := template.New("report").Funcs(template.FuncMap{"inc": func(n int) int { return n + 1 }}).Parse(pageText)
	if err != nil {
		panic("report: the page: " + err.Error())
	}
	script := graphScript + timelineScript + pageScript
	sum := sha256.Sum256([]byte(script))
	view := pageView{
		Report: *rep, Style: template.CSS(styleText), Script: template.JS(script),
		// The page may run its own script and load nothing.
		Policy: "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" +
			base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'",
	}
	var all []runData
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
func (r *Recording) view(index int) (*runView, runData) {
	r.finish()
	data, truncated := r.data()
	v := &runView{Index: index, Name: clean(r.Name), Facts: r.facts(), Problem: r.problem(), Difference: r.Difference}
	if r.err != nil {
		v.Broken = r.err.Error()
	}
	for _, f := range data.Faults {
		v.Faults = append(v.Faults, f.Text)
	}
	v.Notes = append(v.Notes, r.Notes...)
	if r.head.Results == "history" {
		v.Notes = append(v.Notes, "It ran on a real Redis, whose histories contain the results of calls but not their requests and responses.")
	}
	if truncated > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s values are truncated: a value may have %d KiB, all together %d MiB.",
			history.Number(truncated), maxOfValue>>10, maxOfPage>>20)) // KiB and MiB
	}
	return v, data
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

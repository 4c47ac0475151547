package report

import (
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// The data of a run for the page's script: the texts of values and the details of each row.
// The index -1 means no text.
type (
	pageData struct {
		Texts  []string   `json:"texts"`
		Sizes  []int      `json:"sizes"`
		Rows   []rowData  `json:"rows"`
		Input  int        `json:"input"`
		Output int        `json:"output"`
		Lists  []listData `json:"events"`
	}
	rowData struct {
		Name    string     `json:"name"`
		Kind    string     `json:"kind"`
		Detail  string     `json:"detail,omitempty"`
		Run     string     `json:"run,omitempty"`
		Of      string     `json:"of,omitempty"`
		State   string     `json:"state"`
		From    string     `json:"from"`
		To      string     `json:"to,omitempty"`
		After   string     `json:"after"`
		Took    string     `json:"took,omitempty"`
		Line    int        `json:"line,omitempty"`
		Then    string     `json:"then,omitempty"`
		Input   int        `json:"input"`
		Context int        `json:"context"`
		Output  int        `json:"output"`
		Error   int        `json:"error"`
		Calls   []callData `json:"calls,omitempty"`
		Notes   []string   `json:"notes,omitempty"`
	}
	callData struct {
		Method   string   `json:"method"`
		URL      string   `json:"url"`
		Label    string   `json:"label"`
		Bad      bool     `json:"bad,omitempty"`
		After    string   `json:"after"`
		Took     string   `json:"took"`
		Problem  string   `json:"problem,omitempty"`
		Headers  []string `json:"headers,omitempty"`
		Request  int      `json:"request"`
		Response int      `json:"response"`
	}
	listData struct {
		N    int `json:"n"`
		Text int `json:"text"`
		Row  int `json:"row,omitempty"`
	}
)

// data builds the data for the script.
func (r *Recording) data(rows []*row, p *pool) pageData {
	out := pageData{Input: p.add(r.datum(r.head.Input)), Output: -1}
	if r.result != nil {
		out.Output = p.add(r.datum(r.result.Output))
		if r.result.Error != nil {
			out.Output = p.add(r.datum(event.Encode(r.result.Error)))
		}
	}
	for _, x := range rows {
		out.Rows = append(out.Rows, r.rowData(x, p))
	}
	return out
}

func (r *Recording) rowData(row *row, p *pool) rowData {
	x := row.run
	if x == nil {
		first, last := row.runs[0], row.runs[len(row.runs)-1]
		return rowData{
			Name: clean(row.label), Kind: "group", Detail: clean(row.detail), State: "", From: stampText(first.began.at), To: stampText(last.ended.at),
			After: r.after(first.began.at), Input: -1, Context: -1, Output: -1, Error: -1,
		}
	}
	d := rowData{
		Name: clean(x.title()), Kind: x.kind, Detail: clean(x.detail), Run: clean(x.task.String()), Of: clean(x.execution),
		State: string(x.status), From: stampText(x.began.at), To: stampText(x.ended.at), After: r.after(x.began.at),
		Then: clean(x.then), Input: p.add(x.input), Context: p.add(x.context), Output: p.add(x.output), Error: -1, Notes: r.notesOf(x),
	}
	if !x.ended.at.IsZero() {
		d.Took = history.Duration(x.ended.at.Sub(x.began.at))
	}
	if x.def != nil {
		d.Line = x.def.Pos.Line
	}
	if x.problem != nil {
		d.Error = p.add(r.datum(event.Encode(x.problem)))
	}
	for _, c := range x.calls {
		d.Calls = append(d.Calls, callData{
			Method: clean(c.method), URL: clean(c.url), Label: c.label(), Bad: c.failed(), After: r.after(c.from.at), Took: history.Duration(c.took),
			Problem: clean(c.problem), Headers: cleaned(c.headers), Request: p.add(c.request), Response: p.add(c.response),
		})
	}
	return d
}

// notesOf describes the timers and events of a run.
func (r *Recording) notesOf(x *run) []string {
	var out []string
	for _, t := range x.timers {
		text := r.after(t.from.at) + "  " + timerName(t.kind) + " of " + history.Duration(t.due.Sub(t.from.at)) + " is set"
		switch {
		case t.over && t.fired && t.to.at.After(t.due):
			text += ", and fired " + history.Duration(t.to.at.Sub(t.due)) + " late"
		case t.over && !t.fired:
			text += ", and cancelled"
		case !t.over:
			text += ", and had not fired"
		}
		out = append(out, text)
	}
	for _, m := range x.events {
		out = append(out, r.after(m.at.at)+"  "+m.text)
	}
	if x.reason != "" {
		out = append(out, clean(x.reason))
	}
	return out
}

func (r *Recording) after(at time.Time) string { return "+" + history.Duration(at.Sub(r.head.Start)) }

func stampText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

func cleaned(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		out = append(out, clean(text))
	}
	return out
}

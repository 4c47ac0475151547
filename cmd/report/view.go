package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/axis"
)

// The data of a run that the page's script draws. Text is printable. Values such as inputs are
// indexes into the pool; 0 means none. Positions are percentages of the time axis, and rows are
// counted from 1.
type (
	runData struct {
		Texts     []string       `json:"texts"`
		Sizes     []int          `json:"sizes"` // of truncated values, otherwise 0
		Axis      axisData       `json:"axis"`
		Faults    []faultData    `json:"faults"`
		Rows      []rowData      `json:"rows"`
		Omitted   string         `json:"omitted,omitempty"` // number of runs without a row
		Documents []documentData `json:"documents"`
		Events    []eventData    `json:"events"`
		Counted   string         `json:"counted"` // number of all events
	}
	axisData struct {
		Ticks  []tickData `json:"ticks"`
		Breaks []spanData `json:"breaks"`
		Bands  []spanData `json:"bands"`
	}
	tickData struct {
		X     float64 `json:"x"`
		Text  string  `json:"text"`
		At    string  `json:"at"`
		Major bool    `json:"major,omitempty"`
	}
	spanData struct {
		X    span   `json:"x"`
		Text string `json:"text"`
	}
	faultData struct {
		X    float64 `json:"x"`
		Text string  `json:"text"`
	}
	// span is where something begins and ends on the axis.
	span [2]float64

	rowData struct {
		Parent  int    `json:"parent,omitempty"`
		Folded  bool   `json:"folded,omitempty"`
		Omitted bool   `json:"omitted,omitempty"` // the row represents runs without a row
		Differs bool   `json:"differs,omitempty"` // from the recording
		Name    string `json:"name"`
		Index   string `json:"index,omitempty"` // the iteration within the parent, in brackets
		Run     string `json:"run,omitempty"`   // the name with all iterations and attempts, if it differs
		Kind    string `json:"kind"`            // of the task, or workflow or group
		Detail  string `json:"detail,omitempty"`
		State   state  `json:"state"`
		Ending  string `json:"ending,omitempty"`
		Ref     string `json:"ref,omitempty"` // document and task; relates parts of the page
		Line    int    `json:"line,omitempty"`

		Execution string `json:"execution,omitempty"`
		Task      string `json:"task,omitempty"` // with its iteration and attempt
		X         span   `json:"x"`
		From      string `json:"from"`
		To        string `json:"to,omitempty"`
		After     string `json:"after"`           // since the start
		Until     string `json:"until,omitempty"` // since the start, if different from After
		Took      string `json:"took,omitempty"`
		Then      string `json:"then,omitempty"`

		Input   int `json:"input,omitempty"`
		Context int `json:"context,omitempty"`
		Output  int `json:"output,omitempty"`
		Error   int `json:"error,omitempty"`

		Calls  []callData  `json:"calls,omitempty"`
		Timers []timerData `json:"timers,omitempty"`
		Marks  []markData  `json:"marks,omitempty"`
		Notes  []string    `json:"notes,omitempty"`
	}
	callData struct {
		X        span     `json:"x"`
		Method   string   `json:"method"`
		URL      string   `json:"url"`
		Label    string   `json:"label"`
		Bad      bool     `json:"bad,omitempty"`
		After    string   `json:"after"`
		Took     string   `json:"took"`
		Problem  string   `json:"problem,omitempty"`
		Headers  []string `json:"headers,omitempty"`
		Request  int      `json:"request,omitempty"`
		Response int      `json:"response,omitempty"`
	}
	timerData struct { // of a wait or of a pause before a retry
		X     span   `json:"x"`
		Retry bool   `json:"retry,omitempty"`
		Long  string `json:"long"`
	}
	markData struct { // an event at one moment
		X    float64 `json:"x"`
		Kind string  `json:"kind"`
		Text string  `json:"text"`
	}

	eventData struct {
		Number  int    `json:"number,omitempty"`
		After   string `json:"after,omitempty"`
		At      string `json:"at,omitempty"`
		Kind    string `json:"kind,omitempty"`
		Class   string `json:"class,omitempty"`
		Name    string `json:"name,omitempty"` // of the task, with its iteration and attempt
		Text    string `json:"text,omitempty"`
		Ref     string `json:"ref,omitempty"`
		Row     int    `json:"row,omitempty"`
		Data    int    `json:"data,omitempty"`
		Differs bool   `json:"differs,omitempty"`
		Omitted string `json:"omitted,omitempty"` // number of events omitted here
	}
)

// viewer turns a recording into the data that the page shows.
type viewer struct {
	*Recording

	texts pool
	scale *axis.Scale
}

// The minimum distance between ticks and the minimum width of visible elements, in percent.
const (
	tickSpace = 8.5
	hairline  = 0.05
)

// data returns the data of a run, and the number of truncated values.
func (r *Recording) data() (data runData, truncated int) {
	rows, omitted := r.chartRows()
	v := &viewer{Recording: r, texts: pool{texts: []string{""}, sizes: []int{0}, known: map[string]int{}}}
	v.scale = axis.New(r.stamps(rows), axis.Options{Wide: instant(rows), TickWidth: tickSpace})
	data = runData{
		Axis: v.axis(), Faults: []faultData{}, Rows: []rowData{}, Documents: []documentData{}, Counted: history.Count(len(r.events), "event"),
	}
	if omitted > 0 {
		data.Omitted = history.Count(omitted, "run")
	}
	for i, f := range r.faults {
		data.Faults = append(data.Faults, faultData{v.x(f.moment()), r.faultText(i)})
	}
	for _, x := range rows {
		data.Rows = append(data.Rows, v.row(x))
	}
	for _, d := range r.docs {
		if doc := r.document(d); d.index == 0 || slices.ContainsFunc(doc.Tasks, func(t taskData) bool { return t.Runs > 0 }) {
			data.Documents = append(data.Documents, doc)
		}
	}
	data.Events = v.list()
	data.Texts, data.Sizes = v.texts.texts, v.texts.sizes
	return data, v.texts.cut
}

func (v *viewer) axis() axisData {
	out := axisData{Ticks: []tickData{}, Breaks: []spanData{}, Bands: []spanData{}}
	for _, t := range v.scale.Ticks {
		out.Ticks = append(out.Ticks, tickData{rounded(t.X), t.Label, stampText(t.At), t.Major})
	}
	for _, b := range v.scale.Breaks {
		out.Breaks = append(out.Breaks, spanData{span{rounded(b.From), rounded(b.To)}, history.Duration(b.Long)})
	}
	for _, b := range v.scale.Bands {
		out.Bands = append(out.Bands, spanData{span{rounded(b.From), rounded(b.To)}, history.Count(b.Steps, "simultaneous step") + " in order"})
	}
	return out
}

func rounded(x float64) float64 { return math.Round(x*100) / 100 }

// x returns the position of a moment.
func (v *viewer) x(at history.Moment) float64 { return rounded(v.scale.X(at)) }

// span returns the positions of two moments. What has not ended lasts until the end.
func (v *viewer) span(from, to history.Moment) span {
	if to.IsZero() {
		to = v.end()
	}
	a, b := v.x(from), v.x(to)
	return span{a, max(b, rounded(a+hairline))}
}

// faultText describes a fault.
func (r *Recording) faultText(i int) string {
	if i < len(r.Faults) {
		return excerpt.Escaped(r.Faults[i])
	}
	f := r.faults[i]
	text := fmt.Sprintf("fault %s at command %d of %s", f.Fault.Kind, f.Fault.Command, f.Fault.Service)
	if f.Fault.Amount != "" {
		text += ", for " + f.Fault.Amount
	}
	if f.Doing != "" {
		text += " (" + f.Doing + ")"
	}
	return excerpt.Escaped(text)
}

// stamps returns the moments of everything in the rows.
func (r *Recording) stamps(rows []*row) []history.Moment {
	var out []history.Moment
	add := func(moments ...history.Moment) {
		for _, s := range moments {
			if !s.IsZero() {
				out = append(out, s)
			}
		}
	}
	for _, row := range rows {
		switch {
		case row.run != nil:
			add(row.run.moments()...)
		case row.omitted:
			add(row.runs[0].moments()...)
			add(row.runs[len(row.runs)-1].moments()...)
		}
	}
	for _, f := range r.faults {
		add(f.moment())
	}
	add(r.end())
	return out
}

// moments returns when something happened in a run.
func (r *run) moments() []history.Moment {
	out := []history.Moment{r.Began, r.Ended}
	for _, call := range r.calls {
		out = append(out, call.from, call.end(r))
	}
	for _, t := range r.Timers {
		if t.Kind != event.TimeoutTimer {
			out = append(out, t.Set, t.Gone)
		}
	}
	for _, m := range r.events {
		out = append(out, m.at)
	}
	return out
}

// instant reports whether at least 30 % of the tasks take no time, as in a simulation.
func instant(rows []*row) bool {
	none, all := 0, 0
	for _, row := range rows {
		if x := row.run; x != nil && len(x.children) == 0 && !x.Ended.IsZero() {
			all++
			if x.Ended.At.Equal(x.Began.At) {
				none++
			}
		}
	}
	return none*10 >= all*3
}

func (v *viewer) row(row *row) rowData {
	x := row.run
	if x == nil {
		return v.group(row)
	}
	out := rowData{
		Parent: row.parent, Folded: row.folded, Name: excerpt.Escaped(x.bareName()), Index: excerpt.Escaped(x.index()), Kind: x.Kind, Detail: excerpt.Escaped(x.detail),
		State: x.status(), Ending: x.result(), Ref: x.link(), Execution: excerpt.Escaped(x.execution), Task: excerpt.Escaped(x.String()), X: v.span(x.Began, x.Ended),
		Then: excerpt.Escaped(x.then), Input: v.texts.add(x.input), Context: v.texts.add(x.context), Output: v.texts.add(x.output),
	}
	if full := x.fullName(); full != x.bareName() {
		out.Run = excerpt.Escaped(full)
	}
	v.times(&out, x.Began, x.Ended)
	if d := v.Difference; d != nil && d.Run != "" && d.Execution == x.execution && d.Run == x.String() {
		out.Differs = true
	}
	if x.def != nil {
		out.Line = x.def.Pos.Line
	}
	if x.problem != nil {
		out.Error = v.texts.add(v.datum(event.Encode(x.problem)))
	}
	for _, c := range x.calls {
		out.Calls = append(out.Calls, v.call(x, c))
	}
	for _, t := range x.Timers {
		v.timer(&out, x, t)
	}
	for _, m := range x.events {
		out.Marks = append(out.Marks, markData{v.x(m.at), m.kind, m.text})
		out.Notes = append(out.Notes, v.after(m.at.At)+"  "+m.text)
	}
	if x.reason != "" {
		out.Notes = append(out.Notes, excerpt.Escaped(x.reason))
	}
	return out
}

// group returns a row that represents several runs.
func (v *viewer) group(row *row) rowData {
	first, last := row.runs[0], row.runs[len(row.runs)-1]
	state, end := stateDone, last.Ended
	for _, x := range row.runs {
		if x.status() == stateFailed || x.status() == stateOpen {
			state = x.status()
		}
		if x.Ended.At.After(end.At) {
			end = x.Ended
		}
	}
	if state == stateFailed && last.status() == stateDone && !row.omitted {
		state = stateDone
	}
	out := rowData{
		Parent: row.parent, Folded: row.folded, Omitted: row.omitted, Name: excerpt.Escaped(row.label), Kind: "group", State: state, X: v.span(first.Began, end),
	}
	if row.omitted {
		out.Name, out.Detail = "… "+history.Count(len(row.runs), "more run"), row.ends()
	}
	v.times(&out, first.Began, end)
	return out
}

// times sets the times of a row.
func (v *viewer) times(out *rowData, from, to history.Moment) {
	out.From, out.To, out.After = stampText(from.At), stampText(to.At), v.after(from.At)
	if to.IsZero() {
		return
	}
	out.Took = history.Duration(to.At.Sub(from.At))
	if !to.At.Equal(from.At) {
		out.Until = v.after(to.At)
	}
}

func (v *viewer) call(x *run, c *call) callData {
	out := callData{
		X: v.span(c.from, c.end(x)), Method: excerpt.Escaped(c.method), URL: excerpt.Escaped(c.url), Label: c.label(), Bad: c.failed(), After: v.after(c.from.At),
		Took: history.Duration(c.took), Problem: excerpt.Escaped(c.problem), Request: v.texts.add(c.request), Response: v.texts.add(c.response),
	}
	for _, h := range c.headers {
		out.Headers = append(out.Headers, excerpt.Escaped(h))
	}
	return out
}

// timer adds a timer to a row: a bar unless it is a timeout, and a note.
func (v *viewer) timer(out *rowData, x *run, t *history.Timer) {
	long := history.Between(t.Set.At, t.Due)
	if t.Kind != event.TimeoutTimer {
		to := t.Gone
		if t.Gone.IsZero() && !x.open() {
			to = x.Ended
		}
		out.Timers = append(out.Timers, timerData{v.span(t.Set, to), t.Kind == event.RetryTimer, long})
	}
	note := v.after(t.Set.At) + "  the " + history.TimerName(t.Kind, t.Key) + " of " + long + " is set"
	switch {
	case t.Fired && t.Gone.At.After(t.Due):
		note += ", and fired " + history.Duration(t.Gone.At.Sub(t.Due)) + " late"
	case t.Moved:
		note += ", and moved"
	case t.Gone.IsZero():
		note += ", and had not fired"
	case !t.Fired:
		note += ", and cancelled"
	}
	out.Notes = append(out.Notes, note)
}

// The number of events listed from the start and from the end.
const (
	firstEvents = 1000
	lastEvents  = 300
)

// list returns the events in order.
func (v *viewer) list() []eventData {
	out := []eventData{}
	for i, h := range v.events {
		if i < firstEvents || i >= len(v.events)-lastEvents {
			out = append(out, v.event(h))
		} else if i == firstEvents {
			out = append(out, eventData{Omitted: history.Count(len(v.events)-lastEvents-firstEvents, "more event")})
		}
	}
	return out
}

func (v *viewer) event(h *eventEntry) eventData {
	out := eventData{
		Number: h.n, After: v.after(h.At), At: stampText(h.At), Kind: strings.TrimPrefix(string(h.typ), event.Prefix),
		Class: eventClass(h), Text: h.text, Data: v.texts.add(h.data), Differs: v.Difference != nil && v.Difference.Event == h.n,
	}
	if h.run != nil {
		out.Name, out.Ref, out.Row = short(h.run.fullName(), 48), h.run.link(), h.run.row // what fits
	}
	return out
}

// eventClass returns the CSS class of an event.
func eventClass(h *eventEntry) string {
	switch h.typ {
	case event.TaskCompleted, event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		if h.run != nil {
			return string(h.run.status())
		}
	case event.TimerScheduled, event.TimerFired, event.TimerCancelled:
		return "timer"
	case event.EventReceived:
		return "came"
	default:
	}
	return "begun"
}

// bareName returns the name of a run without its iteration.
func (r *run) bareName() string {
	if r.parent == nil && r.Kind != "workflow" {
		return r.String()
	}
	return cmp.Or(r.Name, r.Ref)
}

// fullName returns the name of a run as the other commands print it: charge[2] attempt 3.
func (r *run) fullName() string {
	if r.parent == nil {
		return r.bareName()
	}
	return history.Run(r.bareName(), r.Iteration, r.Attempt)
}

// link returns the key that relates the row, the source line and the node of a task.
func (r *run) link() string {
	if r.doc == nil {
		return ""
	}
	return fmt.Sprintf("%d:%s", r.doc.index, r.Ref)
}

func (r *Recording) after(at time.Time) string { return "+" + history.Duration(at.Sub(r.head.Start)) }

func stampText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

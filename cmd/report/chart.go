package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui/axis"
)

// The chart of a run for the page's template.
type (
	chartView struct {
		Rows     []rowView
		Breaks   []breakView
		Bands    []bandView
		Ticks    []tickView
		Flags    []flagView
		Left     int // omitted runs
		LeftText string
		Folds    bool
	}
	rowView struct {
		ID, Parent, Level int
		Kind              string
		State             state
		Label, Detail     string
		Iteration         string // after the label, shown even if the label is truncated
		Ref               string // document and task; relates parts of the page
		Says              string // for screen readers
		Folds, Folded     bool
		Hidden, Left      bool
		Differs           bool
		Bars              []barView
	}
	barView struct {
		Class string
		X, W  string
		Text  string
		TextX string
		Side  string // position of the text: before, inside or behind
		DX    int
		Title string
	}
	breakView struct{ X, W, Middle, Text string }
	bandView  struct{ X, W, Title string }
	tickView  struct {
		X, Text, Title string
		Major          bool
	}
	flagView struct{ X, Text, Number string }
)

// chartBuilder is a chart under construction.
type chartBuilder struct {
	*Recording

	scale *axis.Scale
	rows  []*row
}

// tickSpace is the minimum distance of ticks in percent.
const tickSpace = 8.5

// chart builds the chart.
func (r *Recording) chart(rows []*row, left int) chartView {
	c := &chartBuilder{Recording: r, rows: rows}
	c.scale = axis.New(c.stamps(), axis.Options{Wide: c.instant(), TickWidth: tickSpace})
	out := chartView{Left: left, LeftText: history.Count(left, "run")}
	if left == 1 {
		out.LeftText = "One run"
	}
	for _, x := range rows {
		out.Rows = append(out.Rows, c.row(x))
		out.Folds = out.Folds || len(x.inside) > 0
	}
	for _, b := range c.scale.Breaks {
		out.Breaks = append(out.Breaks, breakView{percent(b.From), percent(b.To - b.From), percent((b.From + b.To) / 2), history.Duration(b.Long)})
	}
	for _, b := range c.scale.Bands {
		out.Bands = append(out.Bands, bandView{percent(b.From), percent(b.To - b.From), history.Count(b.Steps, "simultaneous step") + " in order"})
	}
	for _, t := range c.scale.Ticks {
		out.Ticks = append(out.Ticks, tickView{percent(t.X), t.Label, t.At.UTC().Format(time.RFC3339Nano), t.Major})
	}
	for i, f := range r.faults {
		out.Flags = append(out.Flags, flagView{percent(c.x(stamp{f.At, f.seq})), r.faultText(i), strconv.Itoa(i + 1)})
	}
	return out
}

func percent(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", max(x, 0)), "0"), ".") + "%"
}

// faultText describes a fault.
func (r *Recording) faultText(i int) string {
	if i < len(r.Faults) {
		return clean(r.Faults[i])
	}
	f := r.faults[i]
	text := fmt.Sprintf("fault %s at command %d of %s", f.Fault.Kind, f.Fault.Command, f.Fault.Service)
	if f.Fault.Amount != "" {
		text += ", for " + f.Fault.Amount
	}
	if f.Doing != "" {
		text += " (" + f.Doing + ")"
	}
	return clean(text)
}

// x returns the position of a moment on the axis.
func (c *chartBuilder) x(at stamp) float64 { return c.scale.X(axis.Stamp{At: at.at, Seq: at.seq}) }

// stamps returns the moments of everything in the rows.
func (c *chartBuilder) stamps() []axis.Stamp {
	var out []axis.Stamp
	add := func(s stamp) {
		if !s.at.IsZero() {
			out = append(out, axis.Stamp{At: s.at, Seq: s.seq})
		}
	}
	for _, row := range c.rows {
		for _, x := range row.all() {
			x.moments(add)
		}
	}
	for _, f := range c.faults {
		add(stamp{f.At, f.seq})
	}
	add(stamp{c.last, c.seq})
	return out
}

// moments calls add with the moments of a run.
func (r *run) moments(add func(stamp)) {
	add(r.began)
	add(r.ended)
	for _, call := range r.calls {
		add(call.from)
		add(call.end(r))
	}
	for _, t := range r.timers {
		if t.kind != event.TimeoutTimer {
			add(t.from)
			add(t.to)
		}
	}
	for _, m := range r.events {
		add(m.at)
	}
}

// all returns the runs of a row.
func (r *row) all() []*run {
	switch {
	case r.run != nil:
		return []*run{r.run}
	case r.left:
		return []*run{r.runs[0], r.runs[len(r.runs)-1]}
	default:
		return nil
	}
}

// instant reports whether at least 30 % of the tasks take no time, as in a simulation.
func (c *chartBuilder) instant() bool {
	none, all := 0, 0
	for _, row := range c.rows {
		if x := row.run; x != nil && len(x.children) == 0 && !x.ended.at.IsZero() {
			all++
			if x.ended.at.Equal(x.began.at) {
				none++
			}
		}
	}
	return none*10 >= all*3
}

// row builds a row.
func (c *chartBuilder) row(x *row) rowView {
	label, turn := x.label, ""
	if x.run != nil && strings.HasSuffix(label, x.run.index()) {
		turn = x.run.index()
		label = strings.TrimSuffix(label, turn)
	}
	v := rowView{
		ID: x.id, Parent: x.parent, Level: x.depth + 1, Kind: "group", State: stateDone,
		Label: short(label, 60), Iteration: turn, Detail: short(x.detail, 90), // what fits
		Folds: len(x.inside) > 0, Folded: x.folded, Hidden: x.hidden, Left: x.left,
	}
	if x.run == nil {
		c.group(&v, x)
		return v
	}
	v.Kind, v.State, v.Ref = kindClass(x.run), x.run.status, x.run.link()
	v.Bars = c.bars(x.run)
	v.Says = c.says(x.run)
	if d := c.Difference; d != nil && d.Run != "" && d.Execution == x.run.execution && d.Run == x.run.task.String() {
		v.Differs = true
	}
	return v
}

func kindClass(x *run) string {
	switch {
	case x.task.Ref == "" && x.kind == "workflow":
		return "workflow"
	case len(x.children) > 0:
		return "holder"
	default:
		return "task"
	}
}

// link returns the key that relates the row, the source line and the node of a task.
func (r *run) link() string {
	if r.doc == nil {
		return ""
	}
	return fmt.Sprintf("%d:%s", r.doc.index, r.task.Ref)
}

// group builds a row that represents several runs.
func (c *chartBuilder) group(v *rowView, x *row) {
	first, last := x.runs[0], x.runs[len(x.runs)-1]
	end := last.ended
	for _, one := range x.runs {
		if one.status == stateFailed {
			v.State = stateFailed
		}
		if one.status == stateOpen {
			v.State = stateOpen
		}
		if one.ended.at.After(end.at) {
			end = one.ended
		}
	}
	if v.State == stateFailed && last.status == stateDone && !x.left {
		v.State = stateDone
	}
	class := "frame " + string(v.State)
	if x.left {
		class = "left"
	}
	v.Bars = []barView{c.bar(class, first.began, end, v.Label)}
	v.Says = v.Label + ", " + c.when(first.began, end)
}

// bar builds a bar between two moments.
func (c *chartBuilder) bar(class string, from, to stamp, title string) barView {
	if to.at.IsZero() {
		to = stamp{c.last, c.seq}
	}
	a, b := c.x(from), c.x(to)
	return barView{Class: class, X: percent(a), W: percent(max(b-a, 0.05)), Title: title} // a minimum that is visible
}

// bars returns the bars of a run and its events.
func (c *chartBuilder) bars(x *run) []barView {
	if x.status == stateSkipped {
		return []barView{c.bar("skipped", x.began, x.began, "skipped")}
	}
	class := "bar "
	if len(x.children) > 0 || x.task.Ref == "" {
		class = "frame "
	}
	body := c.bar(class+string(x.status), x.began, x.ended, x.name+": "+x.ending())
	out := []barView{body}
	if x.kind == "listen" || x.kind == "run" {
		out = append(out, c.bar("wait listen", x.began, x.ended, x.detail))
	}
	for _, t := range x.timers {
		out = append(out, c.timer(x, t)...)
	}
	for i, call := range x.calls {
		out = append(out, c.call(x, call, i == len(x.calls)-1))
	}
	for _, m := range x.events {
		b := c.bar("mark "+m.kind, m.at, m.at, m.text)
		out = append(out, b)
	}
	return out
}

// timer returns the bar of a wait or of a pause before a retry. Timeouts that fire are
// marks.
func (c *chartBuilder) timer(x *run, t *timer) []barView {
	if t.kind == event.TimeoutTimer {
		return nil
	}
	to := t.to
	if !t.over && !x.open {
		to = x.ended
	}
	class, title := "wait", "waits for "+history.Duration(t.due.Sub(t.from.at))
	if t.kind == event.RetryTimer {
		class, title = "wait retry", "pauses for "+history.Duration(t.due.Sub(t.from.at))+" before the next attempt"
	}
	b := c.bar(class, t.from, to, title)
	if t.kind != event.RetryTimer && len(x.timers) == 1 {
		b.Text = history.Duration(t.due.Sub(t.from.at))
		c.beside(&b, x.began, x.ended)
	}
	return []barView{b}
}

// call returns the bar of a request, with its status.
func (c *chartBuilder) call(x *run, call *call, last bool) barView {
	class := "call"
	if call.failed() {
		class += " bad"
	}
	b := c.bar(class, call.from, call.end(x), call.method+" "+call.url+": "+call.label())
	if last {
		b.Text = call.label()
		c.beside(&b, x.began, x.ended)
	}
	return b
}

// beside places the text of a bar behind it or, if there is no space, inside or before it.
func (c *chartBuilder) beside(b *barView, from, to stamp) {
	if to.at.IsZero() {
		to = stamp{c.last, c.seq}
	}
	const edge, wide, apart = 86, 12, 7
	begin, end := c.x(from), c.x(to)
	switch {
	case end < edge:
		b.TextX, b.Side, b.DX = percent(end), "behind", apart
	case end-begin > wide:
		b.TextX, b.Side, b.DX = percent(end), "inside", -apart
	default:
		b.TextX, b.Side, b.DX = percent(begin), "before", -apart
	}
}

// says describes a run for screen readers.
func (c *chartBuilder) says(x *run) string {
	parts := []string{clean(x.title())}
	if x.detail != "" {
		parts = append(parts, short(x.detail, 90)) // what a row shows
	}
	parts = append(parts, x.status.word(), c.when(x.began, x.ended))
	for _, call := range x.calls {
		parts = append(parts, call.method+": "+call.label())
	}
	for _, m := range x.events {
		parts = append(parts, m.text)
	}
	return strings.Join(parts, ", ")
}

// when formats the time from a moment to another one.
func (c *chartBuilder) when(from, to stamp) string {
	text := "+" + history.Duration(from.at.Sub(c.head.Start))
	if to.at.IsZero() || to.at.Equal(from.at) {
		return text
	}
	return text + " to +" + history.Duration(to.at.Sub(c.head.Start))
}

package run

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

// storyLine is a line of a story.
type storyLine struct {
	text  string
	fault bool
}

// writeStory prints in order what happened, with the faults.
func (s *searcher) writeStory(w io.Writer, got *searched, f *search.Finding) {
	processes := history.Count(max(f.Small.Processes, 1), "process")
	executions := history.Count(max(f.Small.Executions, 1), "execution")
	if n := f.Small.Tenants; n > 1 {
		executions += " of " + history.Count(n, "tenant")
	}
	if f.Small.Twins {
		executions += " with the same ids"
	}
	fmt.Fprintf(w, "   what happened, with %s on %s and seed %d%s:\n", executions, processes, f.Small.Seed, conditions(f.Small))
	if !f.Confirmed {
		fmt.Fprintf(w, "   (this run did not fail in the same way again)\n")
	}
	for _, line := range abridged(s.story(got, f, s.sh.OutColor())) {
		fmt.Fprint(w, "   "+got.redact(line.text))
	}
	fmt.Fprintf(w, "   %s\n", cli.Paint(s.sh.OutColor(), cli.Red, s.sh.Glyph("✘", "FAIL")+" "+cli.Printable(got.redact(f.Error()))))
}

// conditions lists the operator actions and the other conditions of a run.
func conditions(sc search.Scenario) string {
	var text strings.Builder
	for _, act := range sc.Acts {
		fmt.Fprintf(&text, ", %s requested after %s: %s", act.What, history.Duration(act.After), cli.Printable(act.Execution))
	}
	if sc.Slow {
		text.WriteString(", with slow calls")
	}
	if sc.Waits > 0 {
		text.WriteString(", with timer services that block in their reads")
	}
	if sc.Poison > 0 {
		fmt.Fprintf(&text, ", with processes that crash on message %d", sc.Poison)
	}
	return text.String()
}

// story returns the lines that explain a finding.
func (s *searcher) story(got *searched, f *search.Finding, on bool) []storyLine {
	cfg := got.search.Config
	if f.Companion != "" {
		cfg = f.Small.Config(cfg)
	}
	sh := *s.sh
	var out bytes.Buffer
	sh.Err, sh.ErrTerminal, sh.Quiet = &out, false, false
	line := NewTimeline(&sh, got.search.Config.Start)
	line.color = on
	line.Add(cfg.Definition, cfg.With)
	var lines []storyLine
	for _, entry := range f.Timeline {
		out.Reset()
		switch {
		case entry.Fault != nil:
			line.fault(entry.Fault)
		case entry.Reached != nil:
			line.reached(entry.Reached)
		default:
			line.Observe([]event.Event{*entry.Event})
			line.happened(*entry.Event)
		}
		for text := range strings.Lines(out.String()) {
			lines = append(lines, storyLine{text, entry.Fault != nil})
		}
	}
	return lines
}

// The number of lines printed of a long story: at both ends and around each fault.
const (
	storyBegin  = 6
	storyEnd    = 14
	storyAround = 5
)

// abridged omits lines far from the faults and from both ends.
func abridged(lines []storyLine) []storyLine {
	near := make([]bool, len(lines))
	for i := range lines {
		near[i] = i < storyBegin || i >= len(lines)-storyEnd
		for j := max(i-storyAround, 0); j < min(i+storyAround+1, len(lines)); j++ {
			near[i] = near[i] || lines[j].fault
		}
	}
	var out []storyLine
	left := 0
	omitted := func() {
		if left > 0 {
			out = append(out, storyLine{text: fmt.Sprintf("%14s (%s)\n", "...", history.Count(left, "line"))})
		}
		left = 0
	}
	for i, l := range lines {
		if !near[i] {
			left++
			continue
		}
		omitted()
		out = append(out, l)
	}
	omitted()
	return out
}

func ordinal(n int) string {
	switch n {
	case 2:
		return "second"
	case 3:
		return "third"
	default:
		return fmt.Sprintf("%dth", n)
	}
}

// faultText describes a fault, the process that it affects, and what is lost.
func faultText(s *sim.InjectedFault) string {
	service, _, _ := strings.Cut(s.Service, "-")
	who := fmt.Sprintf("process %d", s.Process+1)
	doing := "the " + service + "'s " + commandText(service, s.Doing)
	tail := fmt.Sprintf("  [%s, command %d of %s]", s.Kind, s.Command, s.Service)
	switch s.Kind {
	case sim.CrashBefore:
		return fmt.Sprintf("%s crashes before %s reaches Redis; it restarts after %s", who, doing, history.Duration(s.Amount)) + tail
	case sim.CrashAfter:
		return fmt.Sprintf("%s crashes after Redis has executed %s, before it receives the reply; it restarts after %s", who, doing, history.Duration(s.Amount)) + tail
	case sim.DropRequest:
		return doing + " of " + who + " is lost on its way to Redis" + tail
	case sim.DropReply:
		return fmt.Sprintf("Redis executes %s of %s, but the reply is lost", doing, who) + tail
	case sim.Duplicate:
		return "the last published event is delivered again" + tail
	case sim.Delay:
		return fmt.Sprintf("%s pauses for %s, at %s", who, history.Duration(s.Amount), doing) + tail
	case sim.StopRequested:
		return fmt.Sprintf("%s is asked to stop, at %s: it has 5s to finish what it has begun, and releases its other messages; another process starts after %s", who, doing, history.Duration(s.Amount)) + tail
	case sim.Outage:
		return "Redis is unavailable for " + history.Duration(s.Amount) + ", at " + doing + tail
	case sim.Clock:
		return "the clock of Redis jumps ahead by " + history.Duration(s.Amount) + tail
	case sim.CallLost:
		return fmt.Sprintf("the call of %s is carried out, but its response is lost  [%s, call %d of %s]", who, s.Kind, s.Command, s.Service)
	default:
		return string(s.Kind) + tail
	}
}

// commandText describes what a service does with its commands.
func commandText(service, commands string) string {
	commits := map[string]string{
		"worker": "commit of a step", "executor": "commit of a result", "timer": "change of the timers", "renewal": "renewal of a lease",
	}
	for _, word := range []struct{ command, text string }{
		{"eval", commits[service]},
		{"xreadgroup", "read of new events"},
		{"xautoclaim", "claim of abandoned messages"},
		{"xpending", "search for abandoned messages"},
		{"xack", "acknowledgement of an event"},
		{"xrange", "read of a history"},
		{"zrange", "read of the next timers"},
		{"sscan", "read of the listeners"},
		{"hgetall", "read of an execution"},
		{"hmget", "read of an execution"},
		{"time", "read of the clock"},
	} {
		if strings.Contains(commands, word.command) && word.text != "" {
			return word.text
		}
	}
	return "command " + commands
}

// raceMeaning explains which tasks race and suggests a change.
func (*searcher) raceMeaning(f *search.Finding) string {
	o := f.Orders
	if text := eventMeaning(o); text != "" {
		return text
	}
	first, second := o.Branches()
	who := "Steps that run in parallel came in a different order, which changed the outcome."
	compete := false
	switch {
	case f.Execution == "":
		who = "The executions run concurrently, and their shared state depends on which is faster."
	case first == nil || second == nil || first == second:
	case o.Fork.Fork.Compete:
		compete = true
		who = fmt.Sprintf("The branches %s and %s of the fork %s compete: whichever ends first wins.", first.Name, second.Name, o.Fork.Name)
	default:
		who = fmt.Sprintf("The branches %s and %s of the fork %s run in parallel, and the outcome depends on which is faster.", first.Name, second.Name, o.Fork.Name)
	}
	if len(f.Small.Faults) > 0 {
		who += " A fault delayed one of them."
	}
	switch {
	case slices.ContainsFunc(f.Differ, func(u search.Unequal) bool { return strings.HasPrefix(u.Path, "/kept/") }):
		return who + "\nOne of them overwrites what the other one has written meanwhile. Let the service make the change in one call, or check a version (If-Match),\nor make the changes one after the other."
	case compete:
		return who + "\nIf either outcome is acceptable, use --allow-races. If not, run both and choose by their results, not by which is faster."
	default:
		return who + "\nIf either outcome is acceptable, use --allow-races. If not, run them one after the other."
	}
}

// eventMeaning explains the role of events; "" if they have none.
func eventMeaning(o *search.Orders) string {
	var events, others []string
	for _, side := range o.Sides {
		for _, step := range side.Steps {
			switch {
			case !step.Marked:
			case step.Run == "" && strings.HasPrefix(step.What, "event "):
				events = append(events, step.What)
			case step.Task != nil:
				others = append(others, step.Task.Name+" "+step.What)
			}
		}
	}
	switch {
	case len(events) == 0:
		return ""
	case len(others) == 0 && apart(o) > 0:
		return fmt.Sprintf("Events that arrive %s apart are received in the opposite order when the process that holds the first one crashes or freezes:\n"+
			"events are delivered at least once, and their order is not guaranteed. If the order matters, number the events and sort by the number.", history.Duration(apart(o)))
	case len(others) == 0:
		return "Events come at the same time, and the outcome depends on which is received first. If the order matters, number\nthe events and sort by the number."
	default:
		return "The " + events[0] + " arrives just when the workflow starts or stops listening for it: it is received in one run and missed in\nthe other, in which " + others[0] + ". Listen for longer, or start earlier."
	}
}

// apart returns the time between the two steps whose order differs.
func apart(o *search.Orders) time.Duration {
	var at []time.Duration
	for _, step := range o.Sides[0].Steps {
		if step.Marked {
			at = append(at, step.At)
		}
	}
	if len(at) < 2 { // a pair
		return 0
	}
	return (at[1] - at[0]).Abs()
}

// The layout of two runs side by side.
const (
	sideWidth  = 44
	sideSteps  = 14
	sideBefore = 3
)

// writeOrders prints two runs side by side, from shortly before they diverge.
func (s *searcher) writeOrders(w io.Writer, got *searched, f *search.Finding) {
	o := f.Orders
	left, right := sideLines(o.Sides[0]), sideLines(o.Sides[1])
	bar := s.sh.Glyph(" │ ", " | ")
	row := func(a, b string) {
		a = runewidth.Truncate(cli.Printable(got.redact(a)), sideWidth, "~")
		fmt.Fprintf(w, "   %s%s%s\n", runewidth.FillRight(a, sideWidth), bar, strings.TrimRight(runewidth.Truncate(cli.Printable(got.redact(b)), sideWidth, "~"), " "))
	}
	row(sideHead(o, 0), sideHead(o, 1))
	from := max(min(firstMark(o.Sides[0]), firstMark(o.Sides[1]))-sideBefore, 0)
	if from > 0 {
		row("...", "...")
	}
	for i := from; i < min(max(len(left), len(right)), from+sideSteps); i++ {
		row(at(left, i), at(right, i))
	}
	for i := range f.Small.Faults {
		fmt.Fprintf(w, "   with the fault %s at command %d of %s\n", f.Small.Faults[i].Kind, f.Small.Faults[i].Command, f.Small.Faults[i].Service)
	}
}

// sideHead describes which run is shown on a side, 0 or 1.
func sideHead(o *search.Orders, i int) string {
	head := fmt.Sprintf("seed %d", o.Sides[i].Scenario.Seed)
	if n := len(o.Sides[i].Scenario.Faults); n > 0 {
		head += ", " + faultCount(n)
	}
	if i == 0 {
		head += ": the usual order"
	}
	return head
}

func at(lines []string, i int) string {
	if i >= len(lines) {
		return ""
	}
	return lines[i]
}

func firstMark(side search.Side) int {
	return max(0, slices.IndexFunc(side.Steps, func(step search.Step) bool { return step.Marked }))
}

func sideLines(side search.Side) []string {
	var out []string
	for _, step := range side.Steps {
		mark := "  "
		if step.Marked {
			mark = "> "
		}
		out = append(out, fmt.Sprintf("%s%6s  %s", mark, "+"+history.Duration(step.At), stepText(step.Task, step)))
	}
	return out
}

func stepText(t *dsl.Task, step search.Step) string {
	if t == nil {
		return strings.TrimSpace(step.Run + " " + step.What)
	}
	run := event.ParseRun(step.Run)
	name := history.Run(t.Name, run.Iteration, run.Attempt)
	if step.Of != "" {
		name = step.Of + " " + name
	}
	return fmt.Sprintf("%s %s (line %d)", name, step.What, t.Pos.Line)
}

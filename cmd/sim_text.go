package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

// write shows people what a search has found.
func (s *searcher) write(got *searched) {
	w := s.sh.Out
	name := s.document(got.search.Config.Definition).name
	if got.name != "" {
		name += ", test " + got.name
	}
	on := s.sh.outColor()
	verdict, style := "nothing is broken", green
	if n := s.failures(got); n > 0 {
		verdict, style = history.Count(n, "failure"), red
	}
	fmt.Fprintf(w, "%s: %s\n", printable(name), paint(on, style, verdict))
	s.writeCounts(w, got)
	for i, f := range got.Findings {
		fmt.Fprintln(w)
		s.writeFinding(w, got, i+1, f)
	}
	s.writeHints(w, got)
}

func (s *searcher) failures(got *searched) int {
	n := 0
	for _, f := range got.Findings {
		if s.counts(f) {
			n++
		}
	}
	return n
}

// writeCounts says what was tried.
func (s *searcher) writeCounts(w io.Writer, got *searched) {
	parts := []string{history.Count(got.Plain, "run") + " without faults"}
	if got.SinglesOf > 0 {
		text := history.Count(got.Singles, "single fault")
		if got.Singles < got.SinglesOf {
			text += " of " + history.Number(got.SinglesOf)
		}
		parts = append(parts, text)
	}
	if got.Seeds > 0 {
		parts = append(parts, history.Count(got.Seeds, "seed"))
	}
	if got.Stopped {
		parts = append(parts, "then it was stopped")
	}
	fmt.Fprintf(w, "  %s\n", strings.Join(parts, ", "))
	faults, n := []string{}, 0
	for _, kind := range sim.Faults() {
		if got.Faults[kind] > 0 {
			faults = append(faults, fmt.Sprintf("%s %s", kind, history.Number(got.Faults[kind])))
			n += got.Faults[kind]
		}
	}
	if n > 0 {
		fmt.Fprintf(w, "  %s: %s\n", history.Count(n, "fault"), strings.Join(faults, ", "))
	}
	fmt.Fprintf(w, "  %s orders of things, %s of virtual time\n", history.Number(got.Orders), ages(got.Seconds))
	for _, o := range got.Outcomes {
		fmt.Fprintf(w, "  outcome without faults: %s%s\n", s.outcomeText(got, o), s.share(got, o))
	}
}

// ages writes seconds, of which there may be more than a duration can hold.
func ages(seconds int64) string {
	const year = 365 * 24 * 60 * 60
	if seconds > year {
		return fmt.Sprintf("%.1f years", float64(seconds)/year)
	}
	return history.Duration(time.Duration(seconds) * time.Second)
}

func (*searcher) share(got *searched, o search.Outcome) string {
	if len(got.Outcomes) < 2 { //nolint:mnd // alone, it is that of all
		return ""
	}
	return fmt.Sprintf(" (%d)", o.Runs)
}

// longestOutput is how much of an output a line shows.
const longestOutput = 160

func (*searcher) outcomeText(got *searched, o search.Outcome) string {
	text := o.Status
	switch {
	case o.Error != nil:
		text += ": " + o.Error.Error()
	case len(o.Output) > 0:
		text += " " + string(o.Output)
	}
	return printable(short(got.hide(text)))
}

func short(text string) string {
	if runes := []rune(text); len(runes) > longestOutput {
		return string(runes[:longestOutput]) + "…"
	}
	return text
}

// headings are what the classes are to people.
func heading(f *search.Finding) (text, style string) {
	switch f.Class {
	case search.Engine:
		return "flunq broke a promise", red
	case search.Expectation:
		return "not as expected", red
	case search.SideEffect:
		return "the workflow leaves something undone", red
	case search.Hang:
		return "the workflow hangs", red
	case search.Race:
		return "the workflow races", red
	default:
		return "note", yellow
	}
}

func (s *searcher) writeFinding(w io.Writer, got *searched, n int, f *search.Finding) {
	on := s.sh.outColor()
	text, style := heading(f)
	if !s.counts(f) {
		style = yellow
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "   %s\n", strings.ReplaceAll(printable(got.hide(fmt.Sprintf(format, args...))), "\n", "\n   "))
	}
	fmt.Fprintf(w, "%d. %s: %s\n", n, paint(on, style, text), printable(got.hide(f.Rule)))
	if f.Detail != "" && f.Orders == nil {
		say("%s%s", f.Detail, more(f))
	}
	if f.Companion != "" {
		say("in %s", companionCount(got, f))
	} else {
		say("in %s of %s runs%s", history.Number(f.Runs), history.Number(got.Plain+got.Singles+got.Seeds), reduced(f))
	}
	say("%s", s.meaning(got, f))
	s.writeTask(w, got, f)
	switch {
	case f.Orders != nil:
		s.writeOrders(w, got, f)
	case f.Class != search.Late || s.plan != "":
		s.writeStory(w, got, f)
	}
	s.writeDiffer(w, got, f)
	say("again: %s", s.repeat(got, f))
}

// companionCount says in how many runs of flunq's own workflows something was found, and in
// which.
func companionCount(got *searched, f *search.Finding) string {
	return fmt.Sprintf("%s of %s of flunq's own workflows, which a search runs beside the document, here %q%s",
		history.Number(f.Runs), history.Count(got.Companions, "run"), f.Companion, reduced(f))
}

// more says how many other tasks a finding is about.
func more(f *search.Finding) string {
	switch n := len(f.Tasks) - 1; {
	case n < 1:
		return ""
	case n == 1:
		return ", and likewise with one other task"
	default:
		return ", and likewise with " + history.Count(n, "other task")
	}
}

func reduced(f *search.Finding) string {
	if len(f.Seen.Faults) == 0 {
		return fmt.Sprintf(", the first with seed %d; it takes no fault", f.Seen.Seed)
	}
	text := fmt.Sprintf(", the first with seed %d and %s", f.Seen.Seed, faultCount(len(f.Seen.Faults)))
	if len(f.Small.Faults) < len(f.Seen.Faults) {
		text += fmt.Sprintf("; %s will do", faultCount(len(f.Small.Faults)))
	}
	return text
}

func faultCount(n int) string {
	if n == 0 {
		return "no fault"
	}
	return history.Count(n, "fault")
}

// meaning says in a sentence what to make of a finding.
func (s *searcher) meaning(_ *searched, f *search.Finding) string {
	switch {
	case f.Class == search.Engine:
		return "That is a bug of flunq, not of the workflow: please report it with the command below."
	case f.Class == search.Expectation && strings.HasPrefix(f.Rule, "once:") && len(f.Small.Faults) > 0:
		return "A process that dies, stops, or is not heard of, after a call makes it again: the service has to look at the\n" +
			"Idempotency-Key header, which is the same each time, or the workflow has to ask whether it was done."
	case f.Class == search.Expectation && strings.HasPrefix(f.Rule, "once:"):
		return "It takes no fault: the workflow itself makes the call more than once."
	case f.Class == search.Expectation:
		return "The workflow did not do what is expected of it."
	case f.Class == search.Race:
		return s.raceMeaning(f.Orders)
	case f.Rule == search.RuleTwice:
		return "Each attempt has another key, so that the service takes them for different ones."
	case f.Rule == search.RuleUndone:
		return "The workflow took the call for one that had failed."
	case f.Class == search.Hang:
		return "Nothing ends it."
	case f.Orders != nil:
		return s.raceMeaning(f.Orders) + " A fault held one of them up."
	case f.Rule == search.RuleTimeout:
		return "Faults held flunq up for longer than the timeout allows, or the timeout itself; the workflow did what it says it does then."
	case f.Rule == search.RuleEvent:
		return "Faults held flunq up while an event came: nobody listened yet, or any more. That is no failure of flunq."
	case f.Rule == search.RuleCancel:
		return "Faults held up the word that it is not wanted any more: it went on as far as it came. That is no failure of flunq."
	case f.Rule == search.RuleAnswer:
		return "The call was carried out, and the answer lost on its way back; the workflow saw a communication error."
	default:
		return "The document asks for the time, and faults held flunq up."
	}
}

// writeTask shows the line of the document that a finding is about.
func (s *searcher) writeTask(w io.Writer, got *searched, f *search.Finding) {
	ref, _, pair := strings.Cut(f.Task, " ")
	if pair && f.Orders != nil && f.Orders.Fork != nil {
		ref = f.Orders.Fork.Ref
	}
	doc := s.document(got.search.Config.Definition)
	if f.Companion != "" || strings.Contains(f.Execution, ".") {
		return // a child's, which stands in another document
	}
	if at, ok := doc.place(ref); ok && ref != "" {
		var frame bytes.Buffer
		doc.frame(&frame, s.sh.outColor(), at)
		fmt.Fprint(w, shifted(frame.String(), " "))
	}
}

func shifted(text, by string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(by + line)
	}
	return out.String()
}

// mostDiffer is how many differing values are shown.
const mostDiffer = 8

// writeDiffer shows how the outcome differs from the usual one.
func (*searcher) writeDiffer(w io.Writer, got *searched, f *search.Finding) {
	if f.Status[0] != f.Status[1] {
		fmt.Fprintf(w, "   status: %s, usually %s\n", f.Status[1], f.Status[0])
	}
	for i, u := range f.Calls {
		if i == mostDiffer {
			fmt.Fprintf(w, "   and %d more calls\n", len(f.Calls)-i)
			break
		}
		fmt.Fprintf(w, "   carried out %s, usually %s: %s\n", times(u.Here), times(u.Usual), printable(got.hide(short(strings.TrimSpace(u.Method+" "+u.URL+" "+u.Body)))))
	}
	for i, u := range f.Differ {
		if i == mostDiffer {
			fmt.Fprintf(w, "   and %s\n", history.Count(len(f.Differ)-i, "more value"))
			return
		}
		fmt.Fprintf(w, "   %s: %s, usually %s\n", printable(strings.TrimPrefix(u.Path, "/")), printable(got.hide(valueText(u.B))), printable(got.hide(valueText(u.A))))
	}
}

// times says how often something was done.
func times(n int) string {
	switch n {
	case 0:
		return "not at all"
	case 1:
		return "once"
	case 2: //nolint:mnd // two times
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

func valueText(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return short(string(text))
}

// writeHints shows what is worth a look.
func (s *searcher) writeHints(w io.Writer, got *searched) {
	doc := s.document(got.search.Config.Definition)
	if len(got.Hints)+len(got.Unmocked) > 0 {
		fmt.Fprintln(w)
	}
	told := map[string]bool{}
	for _, x := range got.Unmocked {
		if text := x.Method + " " + x.URL; !told[text] {
			told[text] = true
			fmt.Fprintf(w, "%s no mock answers %s: a search calls nobody, the task fails instead (--mocks)\n", paint(s.sh.outColor(), yellow, "hint:"), printable(got.hide(text)))
		}
	}
	for _, h := range got.Hints {
		fmt.Fprintf(w, "%s %s: %s\n", paint(s.sh.outColor(), yellow, "hint:"), printable(standing(doc, h.Task)), printable(got.hide(h.Text)))
	}
}

func standing(doc document, t *dsl.Task) string {
	if t == nil {
		return doc.name
	}
	return fmt.Sprintf("%s:%d: %s", doc.name, t.Pos.Line, t.Name)
}

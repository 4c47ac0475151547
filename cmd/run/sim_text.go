package run

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
)

// write prints a search and its findings.
func (s *searcher) write(got *searched) {
	w := s.sh.Out
	name := s.document(got.search.Config.Definition).Name
	if got.name != "" {
		name += ", test " + got.name
	}
	text, style := s.verdict(got)
	fmt.Fprintf(w, "%s: %s\n", cli.Printable(name), cli.Paint(s.sh.OutColor(), style, text))
	s.writeCounts(w, got)
	if len(got.Unmocked) > 0 {
		fmt.Fprintf(w, "\n%s %s with faults, which make calls that no mock answers:\n", cli.Paint(s.sh.OutColor(), cli.Yellow, "not evaluated:"), history.Count(got.UnmockedRuns, "run"))
		for _, text := range got.Unmocked {
			fmt.Fprintf(w, "  %s\n", cli.Printable(got.redact(text)))
		}
	}
	for i, f := range got.Findings {
		fmt.Fprintln(w)
		s.writeFinding(w, got, i+1, f)
	}
	s.writeHints(w, got)
}

// verdict summarizes a search in one line.
func (s *searcher) verdict(got *searched) (text, style string) {
	runs := history.Count(got.Runs(), "run")
	text, style = "no failures in "+runs, cli.Green
	if n := s.failures(got); n > 0 {
		text, style = history.Count(n, "failure")+" in "+runs, cli.Red
	}
	if got.Stopped == "" {
		return text, style
	}
	if style == cli.Green {
		style = cli.Yellow
	}
	why := map[search.Reason]string{
		search.Interrupted: "interrupted", search.OutOfTime: "stopped by --duration", search.FailedFast: "stopped by --fail-fast",
		search.EnoughFound: "stopped: enough findings",
	}[got.Stopped]
	of := got.PlainOf + got.SinglesOf + got.SeedsOf
	return fmt.Sprintf("%s before the end, after %s of %s: %s", why, history.Number(got.Runs()), history.Number(of), strings.TrimSuffix(text, " in "+runs)+" so far"), style
}

// failures returns the number of findings that are failures.
func (s *searcher) failures(got *searched) int {
	n := 0
	for _, f := range got.Findings {
		if s.counts(f) {
			n++
		}
	}
	return n
}

// writeCounts prints the numbers of runs, faults and outcomes.
func (s *searcher) writeCounts(w io.Writer, got *searched) {
	of := func(n, of int) string {
		if n == of {
			return history.Number(n)
		}
		return history.Number(n) + " of " + history.Number(of)
	}
	parts := []string{of(got.Plain, got.PlainOf) + " " + history.Plural(got.PlainOf, "run") + " without faults"}
	if got.PossibleSingles > 0 {
		parts = append(parts, of(got.Singles, got.PossibleSingles)+" single "+history.Plural(got.PossibleSingles, "fault"))
		if got.SinglesFree > 0 {
			parts = append(parts, history.Number(got.SinglesFree)+" of which never happened")
		}
	}
	if got.SeedsOf > 0 {
		parts = append(parts, of(got.Seeds, got.SeedsOf)+" "+history.Plural(got.SeedsOf, "seed"))
	}
	if without := got.FaultFree - got.Plain - got.SinglesFree; without > 0 && len(got.Faults) > 0 {
		parts = append(parts, history.Number(without)+" of which drew no fault")
	}
	fmt.Fprintf(w, "  %s\n", strings.Join(parts, ", "))
	if n, faults := faultCounts(got.Faults, sim.Faults()); n > 0 {
		fmt.Fprintf(w, "  %s: %s\n", history.Count(n, "fault"), faults)
	}
	fmt.Fprintf(w, "  %s, %s of virtual time\n", history.Count(got.Orders, "distinct interleaving"), ages(got.Seconds))
	for _, o := range got.Outcomes {
		fmt.Fprintf(w, "  outcome without faults: %s%s\n", s.outcomeText(got, o), s.share(got, o))
		for _, text := range o.Distinct {
			fmt.Fprintf(w, "    %s\n", cli.Printable(short(got.redact(text))))
		}
	}
}

// faultCounts returns how many faults were injected, and how many of each kind.
func faultCounts(injected map[sim.FaultKind]int, kinds []sim.FaultKind) (all int, text string) {
	var parts []string
	for _, kind := range kinds {
		if n := injected[kind]; n > 0 {
			all += n
			parts = append(parts, fmt.Sprintf("%s %s", kind, history.Number(n)))
		}
	}
	return all, strings.Join(parts, ", ")
}

// ages formats seconds, which may exceed the range of time.Duration.
func ages(seconds int64) string {
	const year = 365 * 24 * 60 * 60
	if seconds > year {
		return fmt.Sprintf("%.1f years", float64(seconds)/year)
	}
	return history.Duration(time.Duration(seconds) * time.Second)
}

func (*searcher) share(got *searched, o search.Outcome) string {
	if len(got.Outcomes) < 2 { // all runs have the same outcome
		return ""
	}
	return fmt.Sprintf(" (%s of %s)", history.Number(o.Runs), history.Count(got.Plain, "run"))
}

// longestOutput is the maximum length of a printed output, in bytes.
const longestOutput = 160

func (*searcher) outcomeText(got *searched, o search.Outcome) string {
	text := o.Status
	switch {
	case o.Error != nil:
		text += ": " + o.Error.Error()
	case len(o.Output) > 0:
		text += " " + string(o.Output)
	}
	return cli.OneLine(short(got.redact(text)))
}

func short(text string) string { return excerpt.Of(text, longestOutput) }

// heading returns the title of a class of findings.
func heading(class search.Class) string {
	return map[search.Class]string{
		search.Engine:      "flunq violates an invariant",
		search.Expectation: "not as expected",
		search.SideEffect:  "the workflow leaves a wrong state behind",
		search.Hang:        "the workflow hangs",
		search.Race:        "the workflow races",
		search.Late:        "note",
	}[class]
}

func (s *searcher) writeFinding(w io.Writer, got *searched, n int, f *search.Finding) {
	style := cli.Red
	if f.Class == search.Late || !s.counts(f) {
		style = cli.Yellow
	}
	printf := func(format string, args ...any) {
		fmt.Fprintf(w, "   %s\n", strings.ReplaceAll(cli.Printable(got.redact(fmt.Sprintf(format, args...))), "\n", "\n   "))
	}
	fmt.Fprintf(w, "%d. %s: %s\n", n, cli.Paint(s.sh.OutColor(), style, heading(f.Class)), cli.Printable(got.redact(f.Rule)))
	if f.Detail != "" && f.Orders == nil {
		printf("%s%s", f.Detail, more(f))
	}
	if f.Companion != "" {
		printf("in %s", companionCount(got, f))
	} else {
		printf("%s", frequency(got.Report, f))
	}
	printf("%s", s.meaning(f))
	s.writeTask(w, f)
	switch {
	case f.Orders != nil:
		s.writeOrders(w, got, f)
	case f.Class != search.Late || s.plan != "":
		s.writeStory(w, got, f)
	}
	for _, text := range differences(f) {
		printf("%s", text)
	}
	printf("repeat with: %s", s.repeat(got, f))
}

// companionCount says in how many runs of flunq's built-in workflows a finding occurred, and in
// which workflow.
func companionCount(got *searched, f *search.Finding) string {
	return fmt.Sprintf("%s of %s of flunq's own workflows, which a search also runs, here %q%s",
		history.Number(f.Runs), history.Count(got.Companions, "run"), f.Companion, reduced(f.Seen.Seed, len(f.Seen.Faults), len(f.Small.Faults)))
}

// more says how many other tasks have the same finding.
func more(f *search.Finding) string {
	switch n := len(f.Tasks) - 1; {
	case n < 1:
		return ""
	case n == 1:
		return ", and one other task too"
	default:
		return ", and " + history.Count(n, "other task") + " too"
	}
}

// frequency says in how many of the relevant runs a finding occurred, and which faults suffice to
// cause it.
func frequency(r *search.Report, f *search.Finding) string {
	var parts []string
	if f.FaultFree > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s without faults", history.Number(f.FaultFree), history.Count(r.FaultFree, "run")))
	}
	if n := f.Runs - f.FaultFree; n > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s with faults", history.Number(n), history.Count(r.Runs()-r.FaultFree, "run")))
	}
	return "in " + strings.Join(parts, " and ") + reduced(f.Seen.Seed, len(f.Seen.Faults), len(f.Small.Faults))
}

// reduced names the run in which a finding first occurred, and the faults that suffice to cause it.
func reduced(seed uint64, seen, needed int) string {
	text := fmt.Sprintf(", first with seed %d", seed)
	switch {
	case seen == 0:
		return text
	case needed == 0:
		return text + "; no fault is needed"
	case needed < seen:
		return fmt.Sprintf("%s and %s, of which %s enough", text, faultCount(seen), countVerb(needed))
	default:
		return text + " and " + faultCount(seen)
	}
}

func countVerb(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func faultCount(n int) string {
	if n == 0 {
		return "no fault"
	}
	return history.Count(n, "fault")
}

// meaning explains a finding and suggests a change.
func (s *searcher) meaning(f *search.Finding) string {
	switch {
	case f.Class == search.Engine:
		return "This is a bug in flunq, not in the workflow: please report it with the command below."
	case f.Class == search.Expectation && strings.HasPrefix(f.Rule, "once:"):
		return onceMeaning(f)
	case f.Class == search.Expectation:
		return "It does not hold in this run."
	case f.Class == search.Hang:
		return hangMeaning(f)
	case f.Orders != nil:
		return s.raceMeaning(f)
	}
	return cmp.Or(map[string]string{
		search.RuleOrder: "Steps that run in parallel came in a different order, which changed the outcome.",
		search.RuleTwice: "A service treats calls with different keys as different orders. Leave the Idempotency-Key header to flunq, which sends the same key with\n" +
			"each attempt at a task, or build the key from something that stays the same, such as $workflow.id, and not from the time.",
		search.RuleOverwritten: "This happens without faults, and the outcome looks the same each time. Have the service compare versions (If-Match with the ETag\n" +
			"that GET returned, and a retry that reads again), or change the value in one call that states the difference.",
		search.RuleUndone: "To the workflow a lost response looks like a failed call, but the service has done its work. Either retry the call (catch.retry): each attempt\n" +
			"has the same Idempotency-Key header. Or undo the call in the catch anyway, using an id that the workflow chose before the call.",
		search.RuleTimeout: "Faults delayed flunq for longer than the timeout allows, or delayed the timeout itself, and the workflow did what it does in that case.\n" +
			"If this must be rare, allow more time than the recovery of a process takes: the lease of 30s and a margin.",
		search.RuleEvent: "The event arrived while no task listened for it, and such an event is lost. Start to listen before the event is triggered,\n" +
			"for example in a branch of a fork parallel to the call; or query the state when the listen task times out.",
		search.RuleCancel: "Faults delayed the message that cancels the child, which continued until the message arrived. What it does meanwhile must be harmless.",
		search.RuleResponse: "The service has done its work, but the workflow saw a communication error. If it should continue, retry the call (catch.retry):\n" +
			"each attempt has the same Idempotency-Key header, so a service that honours it does the work once.",
		search.RuleClock: "The document reads the clock, and faults delayed flunq. Read the clock once and keep the value.",
	}[f.Rule], "The workflow had a different outcome.")
}

// hangMeaning explains how to end a task that waits forever.
func hangMeaning(f *search.Finding) string {
	text := "Give the listen task a timeout, and handle it in a catch."
	if f.Task == "" {
		text = "Give the task that waits a timeout, and handle it in a catch."
	}
	if strings.Contains(f.Detail, " arrived ") {
		text += "\nAn event that comes before the task listens is lost: start to listen before the event is triggered, for example in a branch of a fork parallel to the call."
	}
	return text
}

// onceMeaning explains why a call was made more than once and suggests a change.
func onceMeaning(f *search.Finding) string {
	keys, runs := map[string]bool{}, map[string]bool{}
	why := ""
	for _, entry := range f.Timeline {
		switch {
		case entry.Reached != nil && strings.HasPrefix(f.Detail, entry.Reached.Method+" "+entry.Reached.URL+" "):
			keys[entry.Reached.Key] = true
			runs[entry.Reached.Task] = true
		case entry.Fault != nil && why == "":
			why = repeatedBecause(entry.Fault.Kind)
		}
	}
	text := why + " so the call was repeated."
	switch {
	case len(f.Small.Faults) == 0:
		text = "No fault is needed: the workflow itself makes the call more than once."
	case len(runs) > 1 && why == "":
		text = "The workflow itself repeats the call."
	case why == "":
		text = "The call was repeated."
	}
	if len(keys) == 1 && !keys[""] {
		return text + "\nEach attempt has the same Idempotency-Key header: a service that honours it does the work once. Or first ask whether the work was done."
	}
	return text + "\nThe calls have different idempotency keys, so a service cannot know that they are the same call."
}

// repeatedBecause explains why a call may be repeated after a fault.
func repeatedBecause(kind sim.FaultKind) string {
	switch kind {
	case sim.CrashBefore, sim.CrashAfter:
		return "The process that made the call crashed before it recorded the response,"
	case sim.StopRequested:
		return "The process that made the call was stopped before it recorded the response,"
	case sim.Delay, sim.Clock:
		return "The process that made the call was silent for longer than its lease,"
	case sim.DropRequest, sim.DropReply, sim.Outage:
		return "The response did not reach Redis,"
	case sim.CallLost:
		return "The response to the call was lost,"
	default:
		return ""
	}
}

// writeTask prints the line of the document that a finding is about.
func (s *searcher) writeTask(w io.Writer, f *search.Finding) {
	ref, _, pair := strings.Cut(f.Task, " ")
	if pair && f.Orders != nil && f.Orders.Fork != nil {
		ref = f.Orders.Fork.Ref
	}
	if f.Companion != "" || f.Document == nil || ref == "" {
		return
	}
	doc := s.document(f.Document)
	if at, ok := f.Document.Locate(ref, ""); ok {
		var frame bytes.Buffer
		doc.Frame(&frame, s.sh.OutColor(), at)
		for line := range strings.Lines(frame.String()) {
			fmt.Fprint(w, " "+line)
		}
	}
}

// maxDiffering is the maximum number of differing calls or values printed.
const maxDiffering = 8

// differences lists the differences between a run and the usual outcome.
func differences(f *search.Finding) []string {
	usually, here := "usually", "here"
	if f.Orders != nil {
		usually, here = "on the left", "on the right"
	}
	var out []string
	if f.Status[0] != f.Status[1] {
		out = append(out, fmt.Sprintf("status: %s, %s %s", f.Status[1], usually, f.Status[0]))
	}
	for i, u := range f.Calls {
		text := short(u.String())
		switch {
		case i == maxDiffering:
			out = append(out, "and "+history.Count(len(f.Calls)-i, "more call"))
		case i > maxDiffering:
		case u.Here == 0 && u.Usual == 1:
			out = append(out, fmt.Sprintf("carried out only %s: %s", usually, text))
		case u.Usual == 0 && u.Here == 1:
			out = append(out, fmt.Sprintf("carried out only %s: %s", here, text))
		default:
			out = append(out, fmt.Sprintf("carried out %s %s, %s %s: %s", times(u.Here), here, times(u.Usual), usually, text))
		}
	}
	for i, u := range f.Differ {
		if i == maxDiffering {
			return append(out, "and "+history.Count(len(f.Differ)-i, "more value"))
		}
		out = append(out, fmt.Sprintf("%s: %s, %s %s", differPath(u.Path), valueText(u.B), usually, valueText(u.A)))
	}
	return out
}

// differPath formats a path in an outcome.
func differPath(path string) string {
	if kept, ok := strings.CutPrefix(path, "/kept/"); ok {
		return "kept at " + kept
	}
	return strings.TrimPrefix(path, "/")
}

// times formats a count of repetitions.
func times(n int) string {
	switch n {
	case 0:
		return "not at all"
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return history.Number(n) + " times"
	}
}

func valueText(v any) string {
	if v == nil {
		return "nothing"
	}
	return short(string(canonical.Encode(v)))
}

// writeHints prints the hints.
func (s *searcher) writeHints(w io.Writer, got *searched) {
	doc := s.document(got.search.Config.Definition)
	if len(got.Hints) > 0 {
		fmt.Fprintln(w)
	}
	for _, h := range got.Hints {
		fmt.Fprintf(w, "%s %s: %s\n", cli.Paint(s.sh.OutColor(), cli.Yellow, "hint:"), cli.Printable(standing(doc, h.Task)), cli.Printable(got.redact(h.Text)))
	}
}

func standing(doc cli.Document, t *dsl.Task) string {
	if t == nil {
		return doc.Name
	}
	return fmt.Sprintf("%s:%d: %s", doc.Name, t.Pos.Line, t.Name)
}

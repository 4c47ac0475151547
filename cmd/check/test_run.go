package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/replace"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/spec"
)

// batch is a set of test files that run together.
type batch struct {
	*tester
	began time.Time
	files []*testFile
	base  sim.Config // what test files do not set

	unread bool // whether a test file could not be read

	mu      sync.Mutex // guards reached
	reached *spec.Coverage
}

// testFile is a test file and its results.
type testFile struct {
	name  string
	needs []string // the files it was read from
	suite *spec.Suite
	err   error // why it cannot run
	cases []*testCase
	left  atomic.Int32 // cases that have not run
}

// testCase is a test case and its result.
type testCase struct {
	*spec.Case
	outcome  outcome
	verdict  *spec.Verdict
	err      error
	timeline []byte
	took     time.Duration
}

// outcome is the result of a case, as the summary counts it.
type outcome string

const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	updated outcome = "updated"
	skipped outcome = "skipped" // after a failure, with --fail-fast
	broken  outcome = "broken"  // flunq itself failed
	invalid outcome = "invalid" // a file that cannot run
)

func outcomes() []outcome { return []outcome{passed, updated, failed, broken, skipped, invalid} }

func (b *batch) count(o outcome) int {
	n := 0
	for _, f := range b.files {
		if f.err != nil && o == invalid {
			n++
		}
		n += f.count(o)
	}
	return n
}

func (f *testFile) count(o outcome) int {
	n := 0
	for _, c := range f.cases {
		if c.outcome == o {
			n++
		}
	}
	return n
}

func (b *batch) virtual() time.Duration {
	var sum time.Duration
	for _, f := range b.files {
		for _, c := range f.cases {
			sum += c.virtual()
		}
	}
	return sum
}

func (c *testCase) virtual() time.Duration {
	if c.verdict == nil {
		return 0
	}
	return c.verdict.Elapsed
}

// load reads the test files. A file that is invalid or cannot be read does not prevent the others from
// running.
func (b *batch) load(files []string) {
	loader := spec.NewLoader(b.read)
	if !b.sh.Quiet {
		loader.Warned = func(source []byte, warnings []yaml.Warning) {
			yaml.RenderWarnings(b.sh.Err, source, warnings, b.sh.ErrColor())
		}
	}
	for _, name := range files {
		f := &testFile{name: name}
		f.suite, f.needs, f.err = loader.Load(name)
		b.loaded(f)
		b.files = append(b.files, f)
		if f.err != nil {
			if _, ok := errors.AsType[*yaml.Mistakes](f.err); !ok {
				why := strings.TrimPrefix(f.err.Error(), cli.DisplayName(name)+": ")
				f.err = yaml.NewMistakes(nil, []yaml.Mistake{{Pos: yaml.Pos{Line: 1, Column: 1}, File: name, Message: why}})
				b.unread = true
			}
			continue
		}
		for _, c := range f.suite.Cases {
			if b.pattern.MatchString(c.Name) {
				f.cases = append(f.cases, &testCase{Case: c})
			}
		}
		f.left.Store(int32(len(f.cases)))
		if len(f.cases) > 0 {
			b.reached.Include(f.suite)
		}
	}
}

// queue distributes the cases of a batch.
type queue struct {
	files []*testFile // the file of each case
	cases []*testCase
	next  atomic.Int32
	stop  atomic.Bool // skip the remaining cases
	done  chan struct{}
}

// run runs all cases in parallel and prints the results in the order of the files.
func (b *batch) run(ctx context.Context) error {
	q := &queue{}
	for _, f := range b.files {
		for _, c := range f.cases {
			q.cases, q.files = append(q.cases, c), append(q.files, f)
		}
	}
	q.done = make(chan struct{}, len(q.cases))
	for range min(b.parallel, len(q.cases)) {
		go b.work(ctx, q)
	}
	printed, err := b.showFinished(ctx, 0)
	for range q.cases {
		<-q.done
		if err == nil {
			printed, err = b.showFinished(ctx, printed)
		}
	}
	return errors.Join(err, ctx.Err())
}

// work runs cases until there are no more.
func (b *batch) work(ctx context.Context, q *queue) {
	for {
		i := int(q.next.Add(1)) - 1
		if i >= len(q.cases) {
			return
		}
		c := q.cases[i]
		c.outcome = skipped
		if !q.stop.Load() && ctx.Err() == nil {
			b.one(ctx, c)
		}
		if b.failFast && (c.outcome == failed || c.outcome == broken) {
			q.stop.Store(true)
		}
		q.files[i].left.Add(-1)
		q.done <- struct{}{}
	}
}

// showFinished prints, in order, the files whose cases have all run. It returns the index
// of the next file.
func (b *batch) showFinished(ctx context.Context, from int) (int, error) {
	for ; from < len(b.files) && b.files[from].left.Load() == 0; from++ {
		f := b.files[from]
		if b.update && f.err == nil {
			if err := b.rewrite(ctx, f); err != nil {
				return from, err
			}
		}
		if err := b.show(f); err != nil {
			return from, err
		}
		for _, c := range f.cases { // there may be many
			if c.outcome == passed && c.verdict != nil {
				c.verdict.Outcome, c.timeline = nil, nil
			}
		}
	}
	return from, nil
}

// one runs a case.
func (b *batch) one(ctx context.Context, c *testCase) {
	began := time.Now()
	var observe func(*spec.Outcome)
	if b.coverage.String() != "" {
		observe = func(o *spec.Outcome) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.reached.Add(c.Suite(), c.Secrets, o)
		}
	}
	c.verdict, c.err = c.Run(ctx, b.base, observe)
	c.took = time.Since(began)
	switch {
	case ctx.Err() != nil:
		c.outcome, c.err = skipped, nil
	case c.err != nil:
		c.outcome = broken
	case len(c.verdict.Differences) > 0:
		c.outcome = failed
	default:
		c.outcome = passed
	}
	if b.verbose && c.verdict != nil {
		c.timeline = b.timeline(c)
	}
}

// timeline returns the timeline of the last run of a case.
func (b *batch) timeline(c *testCase) []byte {
	var out bytes.Buffer
	sh := *b.sh
	sh.Err, sh.ErrTerminal, sh.Quiet = &out, b.sh.Terminal, false
	sh.Width = max(sh.Width-indentOfTimeline, 0)
	line := run.NewTimeline(&sh, c.Start)
	s := c.Suite()
	var with []*dsl.Definition
	for _, d := range s.With {
		with = append(with, d.Definition)
	}
	line.Add(s.Workflow.Definition, with)
	line.Observe(c.verdict.Outcome.History)
	return []byte(c.Redact(out.String()))
}

// indentOfTimeline is the indentation of a timeline below its case.
const indentOfTimeline = 4

// rewrite writes the actual results into a test file and the files that contain its
// expectations.
func (b *batch) rewrite(ctx context.Context, f *testFile) error {
	var changed []*testCase
	var verdicts []*spec.Verdict
	for _, c := range f.cases {
		ran := c.verdict != nil && !slices.ContainsFunc(c.verdict.Differences, func(d spec.Difference) bool { return !d.Updatable() })
		if ran && (c.outcome == failed || c.outcome == passed && c.Expect.IsEmpty()) {
			changed, verdicts = append(changed, c), append(verdicts, c.verdict)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	again := func(c *spec.Case) (*spec.Verdict, error) { return c.Run(ctx, b.base, nil) }
	texts, err := f.suite.Update(verdicts, readForTest, again)
	if err != nil {
		return cli.Fail(cli.ExitUnexpected, err)
	}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if err := replace.File(file, texts[file]); err != nil {
			return fmt.Errorf("write %w", cli.WithoutVerb(file, err))
		}
	}
	for _, c := range changed {
		c.outcome = updated
	}
	return nil
}

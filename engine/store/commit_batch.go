package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// Arguments of a batch before its words, and of an event, as a rule; and words of an
// event, and of a transition besides, at most.
const (
	batchArguments = 8
	eventArguments = 3
	eventWords     = 7
	fieldWords     = 32
)

// tenantKeys are the keys of a batch before those of its executions.
const tenantKeys = 6

// commitBatch is the keys and arguments of a commitScript.
type commitBatch struct {
	store           *Store
	tenant          string
	where           *keysOfTenant
	group, consumer string   // whose messages are answered; empty: there are none
	names           []string // of the executions, for errors
	refused         []error  // why one is not given to the script; nil if it is
	keys            []string // of the executions
	args            []any    // of the transitions
	words           words
	all             []any // arguments, once all are known
	shapes          map[string]string
	shape           []byte // of the transition that is being added, once all of it is known …
	fields          []byte // … and parts of it: the fields of its execution …
	times           []time.Time
	forms           []form
	entries         []byte // … the forms of its history …
	said            []byte // … and what is published
	task            string // of the event before

	first, last string // of the entries that are answered

	deadLetter []any // of the message that the only transition answers; none if it is not given up

	stamp   time.Time // of the last event
	stamped string    // … as text
}

// newCommitBatch begins one for transitions like these, in the memory of one before.
func (s *Store) newCommitBatch(commits []Commit) *commitBatch {
	b, ok := s.memory.batches.Get().(*commitBatch)
	if !ok {
		b = &commitBatch{words: words{before: batchArguments, places: map[string]int{}}, shapes: map[string]string{}}
	}
	b.store, b.tenant, b.where = s, commits[0].Tenant, s.keysFor(commits[0].Tenant)
	for i := range commits {
		if m := commits[i].Message; m != nil {
			b.group, b.consumer = m.Group, m.Consumer
			break
		}
	}
	return b
}

// end gives the memory of a batch back, of which nobody uses anything any more. What
// it held may go, and so does all of one that was much larger than most.
func (b *commitBatch) end() {
	if cap(b.args) > mostArguments {
		return
	}
	for _, list := range [][]any{b.args, b.words.texts, b.all} {
		clear(list)
	}
	clear(b.words.known)
	clear(b.keys)
	clear(b.names)
	clear(b.refused)
	clear(b.forms)
	clear(b.words.places)
	clear(b.shapes)
	b.group, b.consumer, b.first, b.last, b.task, b.deadLetter = "", "", "", "", "", nil
	b.keys, b.args, b.words.texts, b.all = b.keys[:0], b.args[:0], b.words.texts[:0], b.all[:0]
	b.words.known = b.words.known[:0]
	b.names, b.refused = b.names[:0], b.refused[:0]
	memory := b.store.memory
	b.store, b.where = nil, nil
	memory.batches.Put(b)
}

// indexKey is the number of the key of the index that executions of a status end in.
func indexKey(status string) int {
	switch indexOf(status) {
	case faultedIndex:
		return 4
	case completedIndex:
		return 5
	case cancelledIndex:
		return 6
	default:
		return 3
	}
}

func (b *commitBatch) fits(c *Commit) bool {
	n := len(c.History) + len(c.Publish)
	return len(b.names) == 0 || len(b.names) < mostTransitions && len(b.args)+eventArguments*n < mostArguments &&
		len(b.words.texts)+eventWords*n+fieldWords < mostWords
}

// answered widens the range of the entries that the batch answers.
func (b *commitBatch) answered(entry string) {
	if b.first == "" || compareIDs(entry, b.first) < 0 {
		b.first = entry
	}
	if b.last == "" || compareIDs(entry, b.last) > 0 {
		b.last = entry
	}
}

// errLost is why a transition is not tried.
var errLost = errors.New("one before it did not come about")

// add takes up a transition, unless it cannot be written, or one that it is decided
// on is lost, and reports whether it did.
func (b *commitBatch) add(c *Commit, lost bool) bool {
	b.names = append(b.names, c.Execution)
	err := c.check(b)
	if err == nil && lost {
		err = errLost
	}
	b.refused = append(b.refused, err)
	if err != nil {
		return false
	}
	k, head := b.store.keys, len(b.args)
	execution, history := b.where.execution(c.Execution)
	b.keys = append(b.keys, execution, history)
	for _, typ := range c.Listen {
		b.keys = append(b.keys, k.Listeners(c.Tenant, typ))
	}
	join, leave := len(c.Listen), len(c.Unlisten)
	joins, leaves := c.counts()
	if joins {
		b.keys = append(b.keys, k.descendants(c.Tenant, c.Root))
		join++
	}
	for _, typ := range c.Unlisten {
		b.keys = append(b.keys, k.Listeners(c.Tenant, typ))
	}
	if leaves {
		b.keys = append(b.keys, k.descendants(c.Tenant, c.Root))
		leave++
	}
	entry, index := any(""), 0
	if c.Message != nil {
		entry = &c.Message.ID
		b.answered(c.Message.ID)
	}
	if c.Ended {
		index = indexKey(c.Status)
	}
	b.args = append(b.args, nil, entry, &b.names[len(b.names)-1], c.started().UnixMilli())
	version, workflow := b.words.place(strconv.FormatInt(c.Version, 10)), b.words.place(c.workflow())
	b.addTimes(c)
	b.addFields(c)
	b.addEvents(c)
	for _, t := range c.Cancel {
		b.args = append(b.args, member(t), tombstone(t))
	}
	b.shape = counts{
		length: len(b.args) - head, history: len(c.History), publish: len(c.Publish), cancel: len(c.Cancel),
		join: join, leave: leave, fields: len(b.fields) / wordBytes, index: index, acknowledge: c.Ack && c.Message != nil, damaged: c.Damaged, evenIfFull: c.evenIfFull(),
		version: version, workflow: workflow, times: len(b.times), forms: len(b.forms),
	}.append(b.shape[:0])
	b.shape = b.appendForms(append(b.shape, b.fields...))
	b.shape = append(append(b.shape, b.entries...), b.said...)
	b.args[head] = b.shapeText()
	return true
}

// shapeText is the shape as text. Most transitions have that of one before.
func (b *commitBatch) shapeText() string {
	text, known := b.shapes[string(b.shape)]
	if !known {
		text = string(b.shape)
		b.shapes[text] = text
	}
	return text
}

// list is all keys and arguments, behind room for what stands before them.
func (b *commitBatch) list() []any {
	h, from := b.where, batchArguments+len(b.words.texts)+len(b.deadLetter)
	b.all = append(slices.Grow(b.all[:0], beforeKeys+tenantKeys+len(b.keys)+from+len(b.args)),
		nil, nil, nil, &h.stream, &h.timers, &h.open, &h.faulted, &h.completed, &h.cancelled)
	for i := range b.keys {
		b.all = append(b.all, &b.keys[i])
	}
	b.all = append(b.all, &b.group, &b.consumer, &b.tenant, &b.first, &b.last, lookedAt(len(b.names)), from+1, len(b.deadLetter))
	b.all = append(append(append(b.all, b.words.texts...), b.deadLetter...), b.args...)
	return b.all
}

// run has the script make the transitions, and adds what became of them.
func (b *commitBatch) run(ctx context.Context, out []Committing) (all []Committing, err error) {
	var done []any
	if len(b.args) > 0 {
		if done, err = b.store.call(ctx, commitScript, tenantKeys+len(b.keys), b.list()).Slice(); err != nil {
			return nil, failed("commit", err)
		}
	}
	for i, name := range b.names {
		switch {
		case errors.Is(b.refused[i], errLost):
			out = append(out, Committing{Outcome: Conflict})
			continue
		case b.refused[i] != nil:
			out = append(out, Committing{Fenced, b.refused[i]})
			continue
		}
		if len(done) == 0 {
			return nil, failed("commit", errReply)
		}
		switch result := done[0].(type) {
		case int64:
			out = append(out, Committing{Outcome: Outcome(result)})
		case string:
			out = append(out, Committing{Fenced, failed("commit "+name, errors.New(result))})
		default:
			return nil, failed("commit "+name, errReply)
		}
		done = done[1:]
	}
	return out, nil
}

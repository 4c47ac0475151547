package store

import (
	"bytes"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
)

// form is what events of a transition have in common that are of the execution like
// most. An event that has none, form 0, is given by all of its fields.
type form struct {
	source, kind string
	time         int // which of the transition's times
	task         int // word, or how it is given
	suffix       int // word for what the id has behind the execution's, or how it is given
	definition   int // word; 0: none
	behind       int // word for what the data have behind the task, which all of them begin with; 0: they are the event's own

	sourceWord, kindWord, before int
}

// How an event's id, or its task, is given where that is no word.
const (
	ownText = 0
	derived = timed // the id has its number in the history behind the execution's, the task is that of the event before
)

const (
	mostForms    = 255 // that a byte tells apart, besides none
	plentyForms  = 64  // from which on events share forms where that takes texts of their own
	plentyEvents = 32  // … as do those of a transition with more of them
	shortData    = 256
)

// naming is what the data of events about a task begin with.
const naming = `{"task_id":"`

func (b *commitBatch) addEvents(c *Commit) {
	b.forms, b.entries, b.said, b.task = b.forms[:0], b.entries[:0], b.said[:0], ""
	for i := range c.History {
		b.entries = append(b.entries, b.addEvent(c, &c.History[i], c.Version+int64(i)+1))
	}
	kept := 0 // of the history, as far as it has been published
	for i := range c.Publish {
		kept = b.addPublished(c, &c.Publish[i], kept)
	}
}

// addEvent adds an event, in few arguments if it has a form, and returns which. The
// version is that of an entry of the history, else 0.
func (b *commitBatch) addEvent(c *Commit, e *event.Event, version int64) byte {
	head := len(b.args)
	if n := b.addFormed(c, e, version); n > 0 {
		return n
	}
	b.args = b.args[:head]
	fields := b.store.fields(*e)
	b.args = append(b.args, len(fields))
	for i := range fields {
		b.args = append(b.args, &fields[i])
	}
	return 0
}

// addFormed adds an event that has a form, and returns which; 0 if it has none.
func (b *commitBatch) addFormed(c *Commit, e *event.Event, version int64) byte {
	definition, bare := b.definition(e)
	moment := b.timeOf(e.Time)
	if !c.usual(e) || !bare || moment == 0 || b.store.sealer.text(e.Source) != e.Source {
		return 0
	}
	share := len(b.forms) >= plentyForms || len(c.History)+len(c.Publish) > plentyEvents
	f := form{source: e.Source, kind: string(e.Type), time: moment, definition: definition}
	f.suffix = b.suffix(c, e, version)
	f.task = b.taskOf(e.Task, share)
	data := b.store.sealer.Seal(e.Data)
	if version > 0 && e.Type == event.TaskRequested && len(b.forms) < plentyForms {
		f.behind = b.behind(data, e.Task)
	}
	n := b.formOf(f)
	if n == 0 {
		return 0
	}
	if f.suffix == ownText {
		b.args = append(b.args, &e.ID)
	}
	if f.task == ownText {
		b.args = append(b.args, &e.Task)
	}
	if f.behind == 0 {
		b.args = append(b.args, b.textOf(data, e))
	}
	b.task = e.Task
	return n
}

// textOf hands data over as they are in the event, if they are: a copy of them would
// have to be made otherwise.
func (b *commitBatch) textOf(data []byte, e *event.Event) any {
	if b.store.sealer == nil {
		return (*keptText)(&e.Data)
	}
	return data
}

// keptText is a text that a command finds where it is kept.
type keptText []byte

// MarshalBinary is the text.
func (h *keptText) MarshalBinary() ([]byte, error) { return *h, nil }

// suffix is how an event's id is given.
func (b *commitBatch) suffix(c *Commit, e *event.Event, version int64) int {
	rest, ok := strings.CutPrefix(e.ID, c.Execution)
	if !ok {
		return ownText
	}
	var buffer [24]byte
	if version > 0 && rest == string(strconv.AppendInt(append(buffer[:0], '/'), version, 10)) {
		return derived
	}
	return b.words.place(rest)
}

// taskOf is how an event's task is given: where many have one of their own, that is no word.
func (b *commitBatch) taskOf(task string, share bool) int {
	switch {
	case task != "" && share && task == b.task:
		return derived
	case task != "" && share:
		return ownText
	default:
		return b.words.place(task)
	}
}

// behind is the word for what short data have behind the task; 0 if there is none.
func (b *commitBatch) behind(data []byte, task string) int {
	if len(data) > shortData || task == "" || !bytes.HasPrefix(data, []byte(naming)) || b.words.place(naming) == 0 {
		return 0
	}
	rest := data[len(naming):]
	if len(rest) < len(task) || string(rest[:len(task)]) != task {
		return 0
	}
	return b.words.placeOf(rest[len(task):])
}

// formOf is which of the transition's forms one is, a new one if need be; 0 if there is
// no room for it.
func (b *commitBatch) formOf(f form) byte {
	for i := range b.forms {
		g := &b.forms[i]
		if g.time == f.time && g.task == f.task && g.suffix == f.suffix && g.definition == f.definition && g.behind == f.behind &&
			g.kind == f.kind && g.source == f.source {
			return byte(i + 1)
		}
	}
	f.sourceWord, f.kindWord = b.words.place(f.source), b.words.place(f.kind)
	if len(b.forms) == mostForms || min(f.sourceWord, f.kindWord) == 0 {
		return 0
	}
	if f.behind > 0 {
		f.before = b.words.place(naming)
	}
	b.forms = append(b.forms, f)
	return byte(len(b.forms))
}

func (b *commitBatch) appendForms(shape []byte) []byte {
	for i := range b.forms {
		f := &b.forms[i]
		shape = append(appendWords(shape, f.sourceWord, f.kindWord), byte(f.time))
		shape = appendWords(shape, f.task, f.suffix, f.definition, f.before, f.behind)
	}
	return shape
}

// addPublished adds an event to publish. Most are entries of the history as well, in
// its order: one is looked for behind those before it, and the place behind it returned.
func (b *commitBatch) addPublished(c *Commit, e *event.Event, from int) int {
	definition, bare := b.definition(e)
	for i := from; i < len(c.History) && bare && c.usual(e); i++ {
		h := &c.History[i]
		if h.ID == e.ID && len(h.Ext) == 0 && h.Type == e.Type && h.Source == e.Source && h.Task == e.Task &&
			h.Time.Equal(e.Time) && h.Workflow == e.Workflow && bytes.Equal(h.Data, e.Data) {
			if b.entries[i] > 0 {
				b.said = appendWords(append(b.said, 0), i+1, definition)
				return i + 1
			}
		}
	}
	b.said = appendWords(append(b.said, b.addEvent(c, e, 0)), 0, 0)
	return from
}

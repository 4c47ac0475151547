package store

import (
	"strconv"
	"time"

	"flunq.io/flunq/engine/event"
)

// A shape is what a transition is made of, for commitScript: first its counts, then
// the words that its execution's fields are, name after value, then the forms of its
// events, then which form each entry of the history has, and then of each event to
// publish its form, or which entry of the history it is, and its definition then. A word
// is given by its place in two bytes; 0 for a text of the transition's own. A field may
// be one of the transition's times as well: more than all places by its number.
const (
	headBytes = 22
	wordBytes = 2
	formBytes = 7*wordBytes + 1
	timed     = 1 << 15
)

// counts are how many a transition has of each kind.
type counts struct {
	length                                int // of its arguments, the shape included
	history, publish, cancel, join, leave int
	fields, index                         int
	acknowledge, damaged, evenIfFull      bool
	version, workflow                     int // words
	times                                 int // of its events, the first texts of its own
	forms                                 int
}

// append writes them at the beginning of a shape.
func (n counts) append(shape []byte) []byte {
	shape = append(shape, byte(n.length>>16), byte(n.length>>8), byte(n.length))
	for _, count := range [...]int{n.history, n.publish, n.cancel, n.join, n.leave} {
		shape = append(shape, byte(count>>8), byte(count))
	}
	acknowledge := byte(0)
	if n.acknowledge {
		acknowledge = 1
	}
	if n.damaged {
		acknowledge += 2
	}
	if n.evenIfFull {
		acknowledge += 4
	}
	shape = append(shape, byte(n.fields), byte(n.index), acknowledge)
	return append(appendWords(shape, n.version, n.workflow), byte(n.times), byte(n.forms))
}

func appendWords(shape []byte, places ...int) []byte {
	for _, place := range places {
		shape = append(shape, byte(place>>8), byte(place))
	}
	return shape
}

// words are the texts that many arguments of a batch would say, each of them once, by
// their places among all arguments.
type words struct {
	before int // arguments
	places map[string]int
	known  []string // them
	texts  []any    // likewise, each by its address
}

const mostWords = timed - 1 - batchArguments

// place is where a word is; 0 if there is no room for it.
func (w *words) place(text string) int {
	if at, known := w.places[text]; known {
		return at
	}
	return w.add(text)
}

// placeOf is where a text is as a word.
func (w *words) placeOf(text []byte) int {
	if at, known := w.places[string(text)]; known {
		return at
	}
	return w.add(string(text))
}

func (w *words) add(text string) int {
	if len(w.texts) == mostWords {
		return 0
	}
	w.known = append(w.known, text)
	w.texts = append(w.texts, &w.known[len(w.known)-1]) // one that moves on stays where it was, too
	place := w.before + len(w.texts)
	w.places[text] = place
	return place
}

// definition is the word for the definition that an event names, which its task needs;
// 0 if it has none. It reports whether the event has no other attributes besides.
func (b *commitBatch) definition(e *event.Event) (place int, bare bool) {
	text := e.Ext[event.DefinitionAttribute]
	if text == "" || e.Task == "" {
		return 0, len(e.Ext) == 0
	}
	place = b.words.place(text)
	return place, len(e.Ext) == 1 && place > 0
}

// mostTimes is how many a byte tells apart, besides none.
const mostTimes = 255

// addTimes adds the times of events, of which most have the same.
func (b *commitBatch) addTimes(c *Commit) {
	b.times = b.times[:0]
	for _, events := range [][]event.Event{c.History, c.Publish} {
		for i := range events {
			if at := events[i].Time; b.timeOf(at) == 0 && len(b.times) < mostTimes {
				b.times = append(b.times, at)
				b.args = append(b.args, b.time(at))
			}
		}
	}
}

// timeOf is which of the times one is, from 1 on; 0 for none.
func (b *commitBatch) timeOf(at time.Time) int {
	for i := len(b.times); i > 0; i-- {
		if b.times[i-1].Equal(at) {
			return i
		}
	}
	return 0
}

// time is a moment as text; many events in a row have the same one.
func (b *commitBatch) time(at time.Time) string {
	if !b.stamp.Equal(at) || b.stamped == "" {
		b.stamp, b.stamped = at, at.UTC().Format(time.RFC3339Nano)
	}
	return b.stamped
}

// addFields adds the fields of the execution that a commit sets, the status first.
func (b *commitBatch) addFields(c *Commit) {
	b.fields = b.fields[:0]
	b.addText("status", true)
	b.addText(c.Status, true)
	add := func(name, value string, common bool) {
		if value != "" {
			b.addText(name, true)
			b.addText(value, common)
		}
	}
	if c.Version == 0 {
		add("workflow", c.Workflow, true)
		add("definition", c.Definition, true)
		add("parent", c.Parent, false)
		add("parent_task", c.ParentTask, true)
		b.addTimeOf("created", c.started())
	}
	add("definition", c.Migrated, true)
	add("output", string(b.store.sealer.Seal(c.Output)), false)
	add("error", string(b.store.sealer.Seal(c.Error)), false)
	if c.Ended {
		b.addTimeOf("ended", c.Now)
	} else if c.Snapshot != nil {
		add("snapshot", string(b.store.sealer.Seal(c.Snapshot)), false)
		add("snapshot_version", strconv.FormatInt(c.Version+int64(len(c.History)), 10), false)
	}
}

// addTimeOf adds a field that is a time, and mostly that of an event.
func (b *commitBatch) addTimeOf(name string, at time.Time) {
	b.addText(name, true)
	if n := b.timeOf(at); n > 0 {
		b.fields = appendWords(b.fields, timed+n)
		return
	}
	b.addText(b.time(at), false)
}

// addText adds a text, as a word if others say it as well.
func (b *commitBatch) addText(text string, common bool) {
	place := 0
	if common {
		place = b.words.place(text)
	}
	if place == 0 {
		b.args = append(b.args, text)
	}
	b.fields = appendWords(b.fields, place)
}

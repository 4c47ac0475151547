package tui

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/engine/history"
)

// executionReads tracks which requests were made, and when.
type executionReads struct {
	turn                int // answers from before a move of time are ignored
	execution, events   pendingRead
	page, data          pendingRead
	now                 time.Time
	executionAt, lastAt time.Time
	changed             bool // events have happened that the execution does not show yet
	rebuild             bool // time has moved back
	problem             string
}

// pendingRead is an outstanding request. One that is never answered expires.
type pendingRead struct{ asked time.Time }

func (i *pendingRead) ask(now time.Time)       { i.asked = now }
func (i *pendingRead) answered()               { i.asked = time.Time{} }
func (i *pendingRead) open(now time.Time) bool { return now.Sub(i.asked) < 2*patience }

// The polling intervals for a running execution, and for an ended one.
const (
	executionPace = 500 * time.Millisecond
	calmPace      = 2 * time.Second
)

// The answers to the requests of an execution's screen.
type (
	gotExecution struct {
		of   *executionReader
		turn int
		had  int64 // the version of the tree when it was asked
		x    Execution
		err  error
	}
	gotEvents struct {
		of     *executionReader
		turn   int
		after  int64
		events []Event
		err    error
	}
	gotEventPage struct {
		of     *executionReader
		turn   int // of the history's window
		after  int64
		events []Event
		err    error
	}
	gotData struct {
		of    *executionReader
		found readPart
		err   error
	}
)

func (g gotExecution) failed() error { return g.err }
func (g gotEvents) failed() error    { return g.err }
func (g gotEventPage) failed() error { return g.err }
func (g gotData) failed() error      { return g.err }

// refresh returns the commands that read what is missing or outdated.
func (rd *executionReader) refresh(now time.Time) tea.Cmd {
	var all []tea.Cmd
	r := &rd.reads
	r.now = now
	if !rd.waits(now) && now.Sub(r.executionAt) >= rd.pace() {
		r.execution.ask(now)
		r.executionAt, r.changed = now, false
		all = append(all, rd.readExecution())
	}
	if rd.known && !r.events.open(now) && now.Sub(r.lastAt) >= executionPace && (rd.behind() || !rd.now.State.Ended()) {
		r.lastAt = now
		all = append(all, rd.readEvents())
	}
	all = append(all, rd.readPage(), rd.readData())
	return tea.Batch(all...)
}

// waits reports whether to wait for an answer about the execution; without any data yet, it waits
// less.
func (rd *executionReader) waits(now time.Time) bool {
	return rd.reads.execution.open(now) && (rd.known || now.Sub(rd.reads.executionAt) < calmPace/2)
}

// pace returns the polling interval of the execution.
func (rd *executionReader) pace() time.Duration {
	if !rd.known || rd.reads.changed || rd.reads.executionAt.IsZero() {
		return executionPace
	}
	return calmPace
}

// behind reports whether there are events that are not in the tree.
func (rd *executionReader) behind() bool {
	return rd.reads.rebuild || rd.tree.x.Version < rd.now.Version && rd.reads.problem == ""
}

func (rd *executionReader) readExecution() tea.Cmd {
	src, id, turn, had := rd.src, rd.id, rd.reads.turn, rd.tree.x.Version
	return ask(func(ctx context.Context) tea.Msg {
		x, err := src.Execution(ctx, id)
		return gotExecution{rd, turn, had, x, err}
	})
}

func (rd *executionReader) readEvents() tea.Cmd {
	after := rd.tree.x.Version
	if rd.reads.rebuild {
		after = 0
	}
	rd.reads.events.ask(rd.reads.now)
	src, id, turn := rd.src, rd.id, rd.reads.turn
	return ask(func(ctx context.Context) tea.Msg {
		events, err := src.History(ctx, id, after)
		return gotEvents{rd, turn, after, events, err}
	})
}

// readPage reads the missing part of the history's window.
func (rd *executionReader) readPage() tea.Cmd {
	after, lacks := rd.history.want()
	if !lacks || rd.reads.page.open(rd.reads.now) || !rd.seen(historyPane) {
		return nil
	}
	rd.reads.page.ask(rd.reads.now)
	src, id, turn := rd.src, rd.id, rd.history.turn
	return ask(func(ctx context.Context) tea.Msg {
		events, err := src.History(ctx, id, after)
		return gotEventPage{rd, turn, after, events, err}
	})
}

// readData reads the data to show.
func (rd *executionReader) readData() tea.Cmd {
	if rd.reads.data.open(rd.reads.now) || !rd.seen(dataPane) {
		return nil
	}
	source, lacks := rd.data.want(rd)
	if !lacks {
		return nil
	}
	rd.reads.data.ask(rd.reads.now)
	src, id := rd.src, rd.id
	return ask(func(ctx context.Context) tea.Msg {
		text, err := src.Data(ctx, id, source.version)
		return gotData{rd, readPartOf(source, text), err}
	})
}

// take handles an answer, and asks for what follows from it.
func (rd *executionReader) take(msg tea.Msg) tea.Cmd {
	switch m := msg.(type) {
	case gotExecution:
		if m.of == rd {
			return rd.tookExecution(m)
		}
	case gotEvents:
		if m.of == rd {
			return rd.tookEvents(m)
		}
	case gotEventPage:
		if m.of == rd {
			return rd.tookPage(m)
		}
	case gotData:
		if m.of == rd {
			rd.reads.data.answered()
			rd.data.take(rd, m)
			return rd.readData()
		}
	case timeMoved:
		rd.reads.turn++
		rd.reads.execution, rd.reads.events = pendingRead{}, pendingRead{}
		rd.reads.executionAt, rd.reads.lastAt = time.Time{}, time.Time{}
	case thingsDone:
		rd.reads.executionAt, rd.reads.lastAt = time.Time{}, time.Time{}
	}
	return nil
}

func (rd *executionReader) tookExecution(m gotExecution) tea.Cmd {
	if m.turn != rd.reads.turn {
		return nil
	}
	rd.reads.execution.answered()
	rd.reads.problem = problemOf(m.err)
	if m.err != nil {
		return nil
	}
	rd.show(m.x, m.had)
	if rd.behind() && !rd.reads.events.open(rd.reads.now) {
		return rd.readEvents()
	}
	return nil
}

func (rd *executionReader) tookEvents(m gotEvents) tea.Cmd {
	if m.turn != rd.reads.turn {
		return nil
	}
	rd.reads.events.answered()
	rd.reads.problem = problemOf(m.err)
	if m.err != nil {
		return nil
	}
	if m.after != rd.tree.x.Version && !rd.reads.rebuild {
		return nil
	}
	rd.add(m.after, m.events)
	if n := len(m.events); n > 0 && m.events[n-1].Version > rd.now.Version {
		rd.reads.changed = true
	}
	if len(m.events) > 0 && rd.behind() {
		return rd.readEvents()
	}
	rd.tree.arrange()
	return tea.Batch(rd.readPage(), rd.readData())
}

func (rd *executionReader) tookPage(m gotEventPage) tea.Cmd {
	rd.reads.page.answered()
	switch {
	case m.turn != rd.history.turn:
	case m.err != nil:
		rd.history.problem = problemOf(m.err)
		return nil
	default:
		rd.history.take(m.after, m.events)
	}
	return rd.readPage()
}

// problemOf formats an error. The model reports a lost connection.
func problemOf(err error) string {
	if err == nil || errors.Is(err, ErrLost) {
		return ""
	}
	return err.Error()
}

// dataPart is the data that came with an event of the chosen task.
type dataPart struct {
	view   dataView
	before bool  // the task's input, not its output
	event  int64 // an event of the history was chosen instead
	fixed  *Data // a value of the execution was chosen instead

	at      dataPlace // what is shown, or wanted
	sources []dataSource
	kept    []readPart // the most recent first
	found   bool       // the wanted data is shown
	title   string
	problem string
}

// dataPlace identifies data.
type dataPlace struct {
	run                int32
	before             bool
	event              int64
	requested, settled int64 // the events that began and ended the run
}

// dataSource is an event whose data may contain what is wanted.
type dataSource struct {
	version int64
	part    dataPartOf
	note    string
}

// dataPartOf is the part of an event's data that is wanted.
type dataPartOf byte

const (
	allData dataPartOf = iota
	inputData
	resultData
)

// members returns the names that the part may have, best first.
func (p dataPartOf) members() []string {
	switch p {
	case inputData:
		return []string{"input"}
	case resultData:
		return []string{"error", "output", "reason"}
	default:
		return nil
	}
}

// readPart is a part of an event's data, as it was found.
type readPart struct {
	version int64
	part    dataPartOf
	name    string // "" if there is none
	text    string
	items   []dataItem
}

// Bounds of the cache of read data.
const (
	maxKept     = 8
	maxKeptData = 4 << 20
)

// forget empties the cache, since another history is shown.
func (d *dataPart) forget() { d.kept, d.at, d.event = nil, dataPlace{run: -2}, 0 }

// want returns where to read the missing data. Data that is in the cache is shown.
func (d *dataPart) want(s *executionReader) (source dataSource, lacks bool) {
	if d.fixed != nil {
		d.title = d.fixed.Name
		d.view.set(d.fixed.Text)
		d.at.run = -2
		return source, false
	}
	if at := s.dataPlace(); at != d.at {
		d.at, d.sources, d.problem, d.found = at, s.dataSources(at), "", false
	}
	for ; len(d.sources) > 0 && !d.found; d.sources = d.sources[1:] {
		source := d.sources[0]
		part := d.known(source)
		if part == nil {
			return source, d.problem == ""
		}
		if part.name != "" {
			d.found, d.title = true, part.name+source.note
			d.view.show(part.text, part.items)
			return source, false
		}
	}
	if !d.found {
		d.found, d.title = true, s.lacking()
		d.view.show("", nil)
	}
	return source, false
}

func (d *dataPart) known(source dataSource) *readPart {
	for i := range d.kept {
		if k := &d.kept[i]; k.version == source.version && k.part == source.part {
			return k
		}
	}
	return nil
}

// take stores data that was read.
func (d *dataPart) take(s *executionReader, m gotData) {
	if m.err != nil {
		d.problem = problemOf(m.err)
		return
	}
	d.kept = append([]readPart{m.found}, d.kept...)
	size := 0
	for i, k := range d.kept {
		if size += len(k.text); i >= maxKept || size > maxKeptData && i > 0 {
			d.kept = d.kept[:i]
			break
		}
	}
	d.want(s)
}

// readPartOf finds a part in an event's data, and indexes it.
func readPartOf(source dataSource, text string) readPart {
	found := readPart{version: source.version, part: source.part}
	if source.part == allData {
		found.name, found.text, found.items = "data", text, itemsOf(text)
		return found
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil {
		return found
	}
	for _, name := range source.part.members() {
		if value, ok := members[name]; ok {
			found.name, found.text = name, string(value)
			found.items = itemsOf(found.text)
			return found
		}
	}
	return found
}

// dataPlace returns the place of the data to show.
func (rd *executionReader) dataPlace() dataPlace {
	if rd.data.event > 0 {
		return dataPlace{run: -1, event: rd.data.event}
	}
	at := rd.tree.chosenRun()
	if at < 0 {
		return dataPlace{run: -1}
	}
	r := &rd.tree.runs[at]
	return dataPlace{run: at, before: rd.data.before || r.Ended.Version == 0, requested: r.Requested, settled: r.Ended.Version}
}

// dataSources returns where data may be found, best first.
func (rd *executionReader) dataSources(at dataPlace) []dataSource {
	if at.event > 0 {
		return []dataSource{{at.event, allData, " of event " + history.Number(at.event)}}
	}
	if at.run < 0 {
		return nil
	}
	if at.before {
		return rd.sourcesBefore(at.run)
	}
	return []dataSource{{at.settled, resultData, ", event " + history.Number(at.settled)}}
}

// lacking explains why there is no data.
func (rd *executionReader) lacking() string {
	at := rd.data.at
	switch {
	case at.run < 0:
		return "it has not run"
	case at.before:
		return "its input is not in the history"
	default:
		return "it has no output"
	}
}

// dataTitle returns the title of the pane.
func (rd *executionReader) dataTitle() string {
	d := &rd.data
	switch {
	case d.fixed != nil || d.event > 0 && d.found:
		return d.title
	case d.event > 0:
		return "reading event " + history.Number(d.event)
	case d.problem != "":
		return d.problem
	}
	name := rd.tree.chosenTask().Name
	if at := rd.tree.chosenRun(); at == 0 {
		name = "the workflow"
	} else if at > 0 {
		name = rd.tree.nameOf(&rd.tree.runs[at])
	}
	switch {
	case d.at.run < 0:
	case d.at.before && !d.before:
		name += " has not ended; before it"
	case d.at.before:
		name = "before " + name
	default:
		name = "after " + name
	}
	if !d.found {
		return name + ": reading"
	}
	return name + ": " + d.title
}

// madeCall returns the call of the shown run, "" if it made none or its input is shown.
func (rd *executionReader) madeCall() string {
	if at := rd.tree.chosenRun(); at > 0 && rd.data.event == 0 && rd.data.fixed == nil && !rd.data.at.before {
		return rd.tree.runs[at].Call
	}
	return ""
}

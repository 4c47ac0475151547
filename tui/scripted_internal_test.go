package tui

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// when returns the time of the scripted source.
var when = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// scripted is a Source whose answers are fixed.
type scripted struct {
	mu       sync.Mutex
	lost     bool
	wrong    error
	rows     [tableCount][]Row
	overview Overview
	plan     Plan
	done     []Action
	asked    int
}

func newScripted() *scripted {
	s := &scripted{plan: Plan{Lines: []string{"order-1 is running: its 2 tasks are told to stop, its timer is removed."}}}
	s.executions()
	s.timers()
	s.deadLetters()
	s.events()
	s.overview = Overview{
		Now: when, Place: "redis://127.0.0.1:6379/0", Tenant: "default",
		Counts: Counts{Open: 28, Completed: 12_345, Faulted: 17, Cancelled: 3, Timers: 30, Overdue: 1, Dead: 3},
		Events: 12.3, Fires: 0.4,
		Services: []Service{
			{Name: "worker", Alive: 2, Busy: 1, Lag: 3, Pending: 1, Workers: []Worker{{"host-1-a", Alive, 1, time.Second}, {"host-2-b", Alive, 0, 3 * time.Second}}},
			{Name: "executor", Alive: 1, Busy: 1, Pending: 4, Workers: []Worker{{"host-1-c", Alive, 4, 200 * time.Millisecond}, {"host-0-x", Silent, 0, 4 * time.Minute}}},
			{Name: "timer", Note: "not seen for 20s"},
		},
		Due: s.rows[Timers][:12], Of: Totals{Due: 30, Running: 2, Failed: 20},
		Running: []Row{
			{ID: "r1", State: Running, Kind: "call http", Execution: "order-1", Task: "/do/1/charge", At: when.Add(-83 * time.Second)},
			{ID: "r2", State: Running, Kind: "run script", Execution: "注文-2", Task: "/do/0/整理", At: when.Add(-2 * time.Second)},
		},
		Failed: append([]Row{{ID: "order-4", State: Faulted, Note: "communication error: 503 from https://pay.example/charge", At: when.Add(-time.Hour), Until: when.Add(-time.Minute)}}, s.rows[DeadLetters]...),
	}
	return s
}

func (s *scripted) executions() {
	states := []State{Running, Waiting, Completed, Faulted, Cancelled, Suspended}
	for i := range 450 {
		r := Row{ID: "order-" + strconv.Itoa(i+1), State: states[i%len(states)], Workflow: "shop.orders@1.2.0", At: when.Add(-time.Duration(i*i+5) * time.Second), Count: int64(3 + i%40)}
		if r.State.Ended() {
			r.Until = r.At.Add(time.Duration(1+i%7) * 700 * time.Millisecond)
		}
		s.rows[Executions] = append(s.rows[Executions], r)
	}
	s.rows[Executions][1].ID, s.rows[Executions][1].Workflow = "注文-2 はじめの注文です", "店.注文@1"
	s.rows[Executions][2].ID = "evil\x1b[31m\x1b]0;pwned\x07\r\n\u202egnp.exe\u0301"
	s.rows[Executions][4].Workflow = "👩‍👩‍👧 family 🇩🇪 é"
}

func (s *scripted) timers() {
	for i := range 30 {
		r := Row{ID: fmt.Sprintf("t-%03d", i), State: Waiting, Kind: "wait", Execution: "order-" + strconv.Itoa(2*i+2), Task: "/do/" + strconv.Itoa(i%4) + "/pause", At: when.Add(time.Duration(i*i*7-3) * time.Second), Workflow: "shop.orders@1.2.0"}
		if i == 0 {
			r.State = Overdue
		}
		s.rows[Timers] = append(s.rows[Timers], r)
	}
	s.rows[Timers][3].Kind = "retry"
}

func (s *scripted) deadLetters() {
	for i := range 3 {
		s.rows[DeadLetters] = append(s.rows[DeadLetters], Row{ID: fmt.Sprintf("17672%d-0", i), State: Dead, Kind: "task.requested", Execution: "order-" + strconv.Itoa(i+7), Task: "/do/0/charge", Note: "no handler for\tcall \x9b31mgrpc", At: when.Add(-time.Duration(i+1) * time.Hour), Count: 3})
	}
}

func (s *scripted) events() {
	types := []string{"task.completed", "task.requested", "timer.fired", "workflow.started"}
	for i := range 60 {
		s.rows[Events] = append(s.rows[Events], Row{ID: fmt.Sprintf("1767%d-0", 9999-i), Kind: types[i%4], Execution: "order-" + strconv.Itoa(i%9+1), Task: "/do/" + strconv.Itoa(i%3) + "/step", Note: "took 12ms", At: when.Add(-time.Duration(i) * 310 * time.Millisecond)})
	}
}

// answer counts a request, and returns an error if it should fail.
func (s *scripted) answer() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.lost {
		return fmt.Errorf("dial 127.0.0.1:6379: %w", ErrLost)
	}
	return s.wrong
}

func (s *scripted) Overview(context.Context) (Overview, error) { return s.overview, s.answer() }

func (s *scripted) Page(_ context.Context, q Query) (Page, error) {
	if err := s.answer(); err != nil {
		return Page{}, err
	}
	from, _ := strconv.Atoi(q.After)
	p := Page{}
	all := s.rows[q.Table]
	if q.Back {
		return s.before(all, from-1, q), nil
	}
	at := from
	for ; at < len(all) && len(p.Rows) < q.Limit; at++ {
		r := all[at]
		r.Cursor = strconv.Itoa(at + 1)
		if q.Filter.Match(r) {
			p.Rows = append(p.Rows, r)
		}
	}
	p.Scanned = at - from
	if at < len(all) {
		p.Next = strconv.Itoa(at)
	}
	return p, nil
}

// before returns the page before row at; the last page if at is negative.
func (s *scripted) before(all []Row, at int, q Query) (p Page) {
	if at < 0 {
		at = len(all)
	}
	for at--; at >= 0 && len(p.Rows) < q.Limit; at-- {
		r := all[at]
		r.Cursor = strconv.Itoa(at + 1)
		p.Scanned++
		if q.Filter.Match(r) {
			p.Rows = append(p.Rows, r)
		}
	}
	if at >= 0 {
		p.Next = strconv.Itoa(at + 2)
	}
	slices.Reverse(p.Rows)
	return p
}

// Activities returns an activity that fits the state of each execution.
func (s *scripted) Activities(_ context.Context, ids []string) ([]Activity, error) {
	if err := s.answer(); err != nil {
		return nil, err
	}
	out := make([]Activity, len(ids))
	for i, id := range ids {
		at := slices.IndexFunc(s.rows[Executions], func(r Row) bool { return r.ID == id })
		if at < 0 {
			continue
		}
		r := s.rows[Executions][at]
		began := r.At.Add(2 * time.Second)
		switch r.State {
		case Faulted:
			out[i].Note = "communication error: 503 from https://pay.example/charge"
		case Waiting:
			out[i].Open = []Row{{Task: "/do/1/pause", State: Waiting, At: began, Until: when.Add(time.Hour)}}
		case Running:
			out[i].Open = []Row{
				{Task: "/do/2/both/fork/branches/0/charge", State: Running, At: began},
				{Task: "/do/2/both/fork/branches/1/pay@2", State: Retrying, At: began, Until: when.Add(5 * time.Second)},
				{Task: "/do/2/both/fork/branches/2/answer#3", State: Waiting, At: began},
			}
		default:
			out[i].Open = []Row{{Task: "/do/2/both/fork/branches/2/answer#3", State: Waiting, At: began}}
		}
	}
	return out, nil
}

func (s *scripted) Detail(_ context.Context, table Table, id string) (Detail, error) {
	if err := s.answer(); err != nil {
		return Detail{}, err
	}
	at := slices.IndexFunc(s.rows[table], func(r Row) bool { return r.ID == id })
	if at < 0 {
		return Detail{}, errNone
	}
	r := s.rows[table][at]
	return Detail{
		Facts: [][2]string{{"id", r.ID}, {"execution", r.Execution}, {"task", r.Task}, {"reason", r.Note + " and so on, for longer than a line of this pane has room for, as reasons may"}},
		Data:  []Data{{"payload", `{"order":7,"items":[{"name":"書籍","n":2},{"name":"evil\u001b[2J","n":1}],"paid":true}`}, {"text", "no \x1b[7mJSON"}},
	}, nil
}

func (s *scripted) Execution(_ context.Context, id string) (Execution, error) {
	if err := s.answer(); err != nil {
		return Execution{}, err
	}
	return Execution{
		Row: Row{ID: id, State: Running, Workflow: "shop.orders@1.2.0", At: when.Add(-time.Minute)}, Version: 3,
		Detail:   Detail{Facts: [][2]string{{"id", id}, {"workflow", "shop.orders@1.2.0"}}, Data: []Data{{"input", `{"order":7}`}}},
		Document: documentOf("reserve call call http\npause wait wait 10 minutes\ncharge call call http"),
		Waits:    []string{"for the timer of /do/1/pause"},
	}, nil
}

func (s *scripted) History(_ context.Context, _ string, after int64) ([]Event, error) {
	if err := s.answer(); err != nil {
		return nil, err
	}
	all := newStory().done("/do/0/reserve").events
	return all[min(int(after), len(all)):], nil
}

func (s *scripted) Data(context.Context, string, int64) (string, error) {
	return `{"order":7}`, s.answer()
}

func (s *scripted) Plan(context.Context, Action) (Plan, error) { return s.plan, s.answer() }

func (s *scripted) Do(_ context.Context, a Action) (string, error) {
	if err := s.answer(); err != nil {
		return "", err
	}
	s.done = append(s.done, a)
	return "done: " + sentence(a), nil
}

// playback is a scripted source whose time can be moved.
type playback struct {
	*scripted

	moves  []Move
	breaks map[string]bool
}

func newPlayback() *playback {
	f := &playback{scripted: newScripted(), breaks: map[string]bool{}}
	f.overview.Clock = Clock{Moves: true, Seeks: true, Paused: true, Speed: 1, Start: when.Add(-time.Hour), End: when.Add(time.Hour), Marks: []time.Time{when.Add(10 * time.Minute)}}
	f.overview.Services = nil
	return f
}

func (f *playback) Execution(ctx context.Context, id string) (Execution, error) {
	x, err := f.scripted.Execution(ctx, id)
	x.Breaks = f.breaks
	return x, err
}

func (f *playback) Move(_ context.Context, m Move) error {
	if err := f.answer(); err != nil {
		return err
	}
	f.moves = append(f.moves, m)
	c := &f.overview.Clock
	switch m.Verb {
	case Play:
		c.Paused = false
	case Pause:
		c.Paused = true
	case Seek:
		f.overview.Now = m.To
	case NextTimer:
		f.overview.Now = c.Marks[0]
	case Pace:
		c.Speed = m.Speed
	case Advance:
		f.overview.Now = f.overview.Now.Add(m.By)
	case Break:
		f.breaks[m.Task] = !f.breaks[m.Task]
	case NextTask, NextBreak:
		c.Before = "charge"
	case NextEvent, LastEvent, LastTimer:
	}
	return nil
}

package sim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
)

// process is one of those that share the work: an engine that lives, dies, and is
// started again.
type process struct {
	index, incarnation int
	engine             *engine.Engine
	services           []*service

	leaving bool      // it was told to stop
	grace   time.Time // leaving: until when it may go on
	dead    bool
	again   time.Time // dead: until when
	frozen  time.Time // stands still until then
}

// name is that of its consumers. One that is alone has the same in each run.
func (p *process) name() string {
	if p.index == 0 && p.incarnation == 0 {
		return "sim"
	}
	return fmt.Sprintf("sim%d.%d", p.index, p.incarnation)
}

// boot starts a process, for the first time or once more.
func (w *simulation) boot(ctx context.Context, p *process) error {
	var err error
	if p.engine, err = engine.New(w.client, w.options(p)); err != nil {
		return err
	}
	p.engine.Definitions.Parse = w.parse
	p.services = nil
	for _, s := range p.engine.Services() {
		t := w.consumerGroup(s)
		it := newService(ctx, p, t, s)
		if p.incarnation > 0 || s.Group == housekeeping || w.cfg.Waits > 0 && t.fires() {
			w.call(it) // others may have left it something to claim; or it is to wait in a read
		}
		t.services, p.services = append(t.services, it), append(p.services, it)
	}
	w.services = append(w.services, p.services...)
	return nil
}

// parse knows the documents that were parsed before the simulation began: they do
// not change, and every process of every world would parse them again.
func (w *simulation) parse(workflow string, text []byte) (*dsl.Definition, error) {
	for _, def := range slices.Concat([]*dsl.Definition{w.cfg.Definition}, w.cfg.With, w.cfg.abroad) {
		if bytes.Equal(def.Source, text) {
			return def, nil
		}
	}
	def, _, err := dsl.Parse(workflow, text)
	return def, err
}

// crash ends a process: nothing that it sends from here on arrives.
func (w *simulation) crash(p *process, faults []Fault) {
	p.dead, w.bodies = true, true
	for _, f := range faults {
		if f.Kind == CrashBefore || f.Kind == CrashAfter {
			p.again = later(p.again, w.clock.now.Add(f.Amount))
		}
	}
	w.rouseAll()
}

// freeze lets a process stand still for a while.
func (w *simulation) freeze(p *process, amount time.Duration) {
	p.frozen = later(p.frozen, w.clock.now.Add(amount))
	w.rouseAll()
}

// rouseAll lets everybody look whether there is something to claim, now or later.
func (w *simulation) rouseAll() {
	for _, s := range w.services {
		w.call(s)
	}
}

// clear takes the services of dead processes out.
func (w *simulation) clear() {
	if !w.bodies {
		return
	}
	w.bodies = false
	w.depart()
	for _, p := range w.processes {
		if !p.dead || len(p.services) == 0 {
			continue
		}
		for _, s := range p.services {
			w.count(s)
			w.current = s // so that what it sends while it ends does not arrive
			s.stop()
			w.current = nil
		}
		gone := func(s *service) bool { return s.process == p }
		w.services, w.active = slices.DeleteFunc(w.services, gone), slices.DeleteFunc(w.active, gone)
		for _, t := range w.groups {
			t.services = slices.DeleteFunc(t.services, gone)
		}
		p.services = nil
	}
}

// count notes how many commands a service has sent.
func (w *simulation) count(s *service) {
	if s.commands > 0 {
		w.sent[s.Name] = s.commands
	}
}

// reboot starts the processes again whose time has come.
func (w *simulation) reboot(ctx context.Context) error {
	w.clear()
	for i, p := range w.processes {
		if !p.dead || p.again.After(w.clock.now) {
			continue
		}
		next := &process{index: p.index, incarnation: p.incarnation + 1}
		w.processes[i] = next
		if err := w.boot(ctx, next); err != nil {
			return err
		}
	}
	return nil
}

// again publishes the youngest event of the stream once more, as a producer does
// that was not told of its success.
func (w *simulation) again() {
	w.aside(func(ctx context.Context) error {
		key := w.youngest
		entries, err := w.client.XRevRangeN(ctx, key, "+", "-", 1).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		var values []any
		for _, name := range slices.Sorted(maps.Keys(entries[0].Values)) {
			values = append(values, name, entries[0].Values[name])
		}
		return w.client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: values}).Err()
	})
}

// aside lets the world itself do something in the middle of a service's turn.
func (w *simulation) aside(do func(context.Context) error) {
	current := w.current
	w.current = nil
	if err := do(context.Background()); err != nil { //nolint:forbidigo // the world's own commands never wait
		w.failure = err
	}
	w.current = current
}

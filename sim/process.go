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

// process is one engine process of the simulation, which can crash, stop and restart.
type process struct {
	index, incarnation int
	engine             *engine.Engine
	services           []*service

	leaving bool      // it was asked to stop
	grace   time.Time // leaving: when it is killed
	dead    bool
	again   time.Time // dead: when it restarts
	frozen  time.Time // frozen until then
}

// name is the suffix of its consumers' names. The first incarnation of the first process
// always has the same name.
func (p *process) name() string {
	if p.index == 0 && p.incarnation == 0 {
		return "sim"
	}
	return fmt.Sprintf("sim%d.%d", p.index, p.incarnation)
}

// boot starts a process.
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
			w.wakeService(it) // others may have left messages to claim; or it is to block in a read
		}
		t.services, p.services = append(t.services, it), append(p.services, it)
	}
	w.services = append(w.services, p.services...)
	return nil
}

// parse returns the definitions that were parsed before the simulation began, since
// otherwise each process of each simulation would parse them again.
func (w *simulation) parse(workflow string, text []byte) (*dsl.Definition, error) {
	for _, def := range slices.Concat([]*dsl.Definition{w.cfg.Definition}, w.cfg.With, w.cfg.foreignDefinitions) {
		if bytes.Equal(def.Source, text) {
			return def, nil
		}
	}
	def, _, err := dsl.Parse(workflow, text)
	return def, err
}

// crash kills a process: nothing that it sends from now on arrives.
func (w *simulation) crash(p *process, faults []Fault) {
	p.dead, w.deadServices = true, true
	for _, f := range faults {
		if f.Kind == CrashBefore || f.Kind == CrashAfter {
			p.again = later(p.again, w.clock.now.Add(f.Amount))
		}
	}
	w.wakeAll()
}

// freeze suspends a process for a while.
func (w *simulation) freeze(p *process, amount time.Duration) {
	p.frozen = later(p.frozen, w.clock.now.Add(amount))
	w.wakeAll()
}

// wakeAll wakes all services to look for messages to claim.
func (w *simulation) wakeAll() {
	for _, s := range w.services {
		w.wakeService(s)
	}
}

// clear removes the services of dead processes.
func (w *simulation) clear() {
	if !w.deadServices {
		return
	}
	w.deadServices = false
	w.finishStops()
	for _, p := range w.processes {
		if !p.dead || len(p.services) == 0 {
			continue
		}
		for _, s := range p.services {
			w.count(s)
			w.current = s // what it sends while it ends must not arrive
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

// count records how many commands a service has sent.
func (w *simulation) count(s *service) {
	if s.commands > 0 {
		w.sent[s.Name] = s.commands
	}
}

// reboot restarts the processes that are due.
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

// republish publishes the youngest event once more, like a producer that did not receive the
// reply.
func (w *simulation) republish() {
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

// aside runs do as a command of the simulation itself during a service's turn.
func (w *simulation) aside(do func(context.Context) error) {
	current := w.current
	w.current = nil
	if err := do(context.Background()); err != nil { //nolint:forbidigo // the simulation's own commands never block
		w.failure = err
	}
	w.current = current
}

package recording

import (
	"fmt"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// Histories returns the events of all histories in the recording, in their order.
func (r *Recording) Histories() []event.Event {
	out := make([]event.Event, len(r.entries))
	for i, e := range r.entries {
		out[i] = e.Event
	}
	return out
}

// Config returns the configuration of the recorded run, as far as decisions depend on it.
// If workflow is not nil, it replaces the recorded document of the same name.
func (r *Recording) Config(workflow *dsl.Definition) (sim.Config, error) {
	p := &replay{Recording: r, by: NewReplayer(ReplayOptions{Workflow: workflow})}
	if err := p.read(); err != nil {
		return sim.Config{}, err
	}
	if p.diff != nil {
		return sim.Config{}, fmt.Errorf("%s:%d: %s", r.Name, p.diff.Line, p.diff.Replayed)
	}
	return p.config(func(d *document) *dsl.Definition { return d.now }), nil
}

// config returns the configuration of the recorded run with one definition of each document.
func (rp *replay) config(of func(*document) *dsl.Definition) sim.Config {
	h := rp.header
	cfg := sim.Config{
		Definition: of(rp.main), Input: h.Input, ID: h.ID, Tenant: h.Tenant, Seed: h.Seed, Start: h.Start,
		Version: h.Flunq, Secrets: rp.secrets, Limits: rp.limits(), Executions: h.Executions,
	}
	for _, d := range rp.docs[1:] {
		cfg.With = append(cfg.With, of(d))
	}
	return cfg
}

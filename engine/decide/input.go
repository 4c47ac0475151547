package decide

import (
	"cmp"
	"slices"
	"strings"

	"flunq.io/flunq/engine/event"
)

// InputOf returns the input that a TimerFired delivers; ok is false if it delivers none.
func InputOf(e event.Event) (fired event.Fired, ok bool) {
	if e.Type != event.TimerFired || !strings.Contains(string(e.Data), `"`+string(event.InputTimer)+`"`) {
		return fired, false
	}
	err := DecodeData(e, &fired)
	return fired, err == nil && fired.Kind == event.InputTimer
}

// Take applies an input that a TimerFired delivers, as Apply does with other events. If a task
// consumes it, the history gets an EventReceived; otherwise the state is unchanged. d.Input says
// which.
func (s *State) Take(env *Env, fired event.Fired, e event.Event, d *Decision) error {
	in, err := fired.ReadInput()
	if err != nil {
		return err
	}
	received := Received(in, s.Execution)
	received.ID, received.Time = fired.InputID(), e.Time
	d.Input = &InputDecision{Fired: fired}
	if slices.Contains(s.Seen, received.ID) || slices.ContainsFunc(s.Deferred, func(one event.Event) bool { return one.ID == received.ID }) {
		return nil
	}
	if d.Input.Taken, err = s.Apply(env, received, d); err != nil || d.Input.Taken {
		return err
	}
	d.Input.Why = s.rejection(env, in)
	return nil
}

// rejection returns why no task consumes an event.
func (s *State) rejection(env *Env, in event.Event) string {
	matches := s.ListenMatches(env, in)
	var reasons []string
	for _, match := range matches {
		if match.Why != "" {
			reasons = append(reasons, match.Task.Name+": "+match.Why)
		}
	}
	none := "no task listens"
	if len(matches) > 0 {
		none += " for " + string(in.Type)
	}
	return env.opts.Redactor.Redact(cmp.Or(strings.Join(reasons, "; "), none))
}

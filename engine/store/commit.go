package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"flunq.io/flunq/engine/event"
)

// Commit is one transition of an execution.
type Commit struct {
	Message *Message // that it answers; nil for none
	Ack     bool     // acknowledge the message

	Tenant, Execution  string
	Version            int64         // that the decision was made on; 0 also creates the execution
	History            []event.Event // become versions Version+1, Version+2, …
	Publish            []event.Event // to the tenant's stream
	Cancel             []event.Timer // also those that are still on their way to the timer service
	Listen, Unlisten   []string      // types of events to be woken for, "*" for all
	Workflow           string
	Definition         string // hash of the document, kept when the execution is created
	Migrated           string // hash of another one that it goes on with; "": of the same
	Parent, ParentTask string
	Root               string // the outermost of those that began it one after the other; "": it is not counted
	Status             string
	Output, Error      json.RawMessage
	Ended              bool   // nothing can follow: the snapshot goes
	Damaged            bool   // that the history is gone is known: it is no error
	Snapshot           []byte // to keep; nil keeps the last one
	Now                time.Time
	Started            time.Time // by which executions are listed; zero stands for Now
}

// Outcome is what became of a Commit.
type Outcome int

// The outcomes of a Commit.
const (
	Committed Outcome = iota
	Conflict          // the execution has another version: reload it and decide again
	Fenced            // the message belongs to another consumer, or was acknowledged
)

// Committing is what became of one of several commits.
type Committing struct {
	Outcome Outcome
	Err     error // nothing was written
}

// Commit writes a transition, all of it or nothing.
func (s *Store) Commit(ctx context.Context, c Commit) (Outcome, error) {
	done, err := s.CommitAll(ctx, []Commit{c})
	if err != nil {
		return Fenced, err
	}
	return done[0].Outcome, done[0].Err
}

// How much one script is given to do: Redis does nothing else meanwhile.
const (
	mostTransitions = 100
	mostArguments   = 20_000
)

// CommitAll writes transitions in their order, each of them whole or not at all.
// One that does not come about keeps none but those of its own execution behind it:
// they are conflicts. All are of one tenant, and answer messages of one consumer.
// With an error it is not known which were written.
func (s *Store) CommitAll(ctx context.Context, commits []Commit) ([]Committing, error) {
	out := make([]Committing, 0, len(commits))
	lost := map[string]bool{} // executions
	for len(commits) > 0 {
		b := s.newCommitBatch(commits)
		n := 0
		for n < len(commits) && b.fits(&commits[n]) {
			if !b.add(&commits[n], lost[commits[n].Execution]) {
				lost[commits[n].Execution] = true
			}
			n++
		}
		all, err := b.run(ctx, out)
		if err != nil {
			return nil, err
		}
		done := all[len(out):]
		for i, d := range done {
			if d.Err != nil || d.Outcome != Committed {
				lost[commits[i].Execution] = true
			}
		}
		out, commits = all, commits[n:]
	}
	return out, nil
}

// check says what the script could only find out half way through.
func (c *Commit) check(b *commitBatch) error {
	if err := checkExecution(c.Tenant, c.Execution); err != nil {
		return err
	}
	if c.Tenant != b.tenant {
		return fmt.Errorf("%w: a commit of tenant %s among those of %s", ErrName, c.Tenant, b.tenant)
	}
	if m := c.Message; m != nil && (m.Tenant != c.Tenant || m.Group != b.group || m.Consumer != b.consumer) {
		return fmt.Errorf("%w: a message of tenant %s cannot commit an execution of %s", ErrName, m.Tenant, c.Tenant)
	}
	for _, events := range [][]event.Event{c.History, c.Publish} {
		for _, e := range events {
			if n := len(e.Ext); n >= mostFields {
				return fmt.Errorf("commit %s: event %s has %d further attributes, want less than %d", c.Execution, e.ID, n, mostFields)
			}
		}
	}
	return nil
}

// counts reports whether the execution is one more, or one less, of those open below its root.
func (c *Commit) counts() (joins, leaves bool) {
	begins := c.Version == 0
	return c.Root != "" && begins && !c.Ended, c.Root != "" && !begins && c.Ended
}

func (c *Commit) started() time.Time { return cmp.Or(c.Started, c.Now) }

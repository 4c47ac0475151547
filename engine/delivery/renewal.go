package delivery

import (
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Holder is a service that holds messages.
type Holder struct {
	Held func() []store.Message
	Lost func([]store.Message) // receives messages that another consumer has claimed; nil if the commit detects that
	// Finish acknowledges handled messages after the last read; nil if that is not needed.
	Finish func(context.Context) error
}

// Renewal renews the leases of the messages that the services of a process hold.
type Renewal struct {
	store   *store.Store
	holders []Holder
	lease   time.Duration
}

// NewRenewal returns a Renewal for leases of the given duration.
func NewRenewal(st *store.Store, holders []Holder, lease time.Duration) *Renewal {
	return &Renewal{store: st, holders: holders, lease: lease}
}

// Step renews all leases. It returns when to call it again: after a third of a lease, or
// zero if nothing is held or an error occurred.
func (r *Renewal) Step(ctx context.Context) (wake time.Time, err error) {
	some := false
	for _, h := range r.holders {
		if held := h.Held(); len(held) > 0 {
			some = true
			err = errors.Join(err, stream.New(r.store).Renew(ctx, held, h.Lost))
		}
	}
	if !some || err != nil {
		return time.Time{}, err
	}
	now, err := r.store.Now(ctx)
	return now.Add(r.lease / 3), err
}

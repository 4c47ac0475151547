package delivery

import (
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/store"
)

// Holder is a service that holds messages.
type Holder struct {
	Held func() []store.Message
	Lost func([]store.Message) // they are another's by now; nil where the commit finds out
	// Finish acknowledges what means nothing more, once nothing is read any more; nil
	// where there is nothing of the kind.
	Finish func(context.Context) error
}

// Renewal keeps the leases of what the services of a process hold, as long as the
// process lives.
type Renewal struct {
	store   *store.Store
	holders []Holder
	lease   time.Duration
}

// NewRenewal renews leases of a length.
func NewRenewal(st *store.Store, holders []Holder, lease time.Duration) *Renewal {
	return &Renewal{store: st, holders: holders, lease: lease}
}

// Step renews all leases, and wants to be called again after a third of a lease.
func (r *Renewal) Step(ctx context.Context) (wake time.Time, err error) {
	some := false
	for _, h := range r.holders {
		buffered := h.Held()
		if len(buffered) == 0 {
			continue
		}
		some = true
		err = errors.Join(err, r.renew(ctx, h, buffered))
	}
	if !some || err != nil {
		return time.Time{}, err
	}
	now, err := r.store.Now(ctx)
	return now.Add(r.lease / 3), err
}

// renew renews what a service holds. What it has lost it is told of at once, not only
// when Redis has been asked about the messages of all tenants.
func (r *Renewal) renew(ctx context.Context, h Holder, buffered []store.Message) error {
	for _, part := range store.ByOwner(buffered) {
		lost, err := r.store.Renew(ctx, part...)
		if len(lost) > 0 && h.Lost != nil {
			h.Lost(lost)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

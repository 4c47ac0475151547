package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Out publishes the entries of tenants' streams.
//
// Entries of an execution stay in order, even when processes die or several believe that they are
// the bridge of a tenant: before a process publishes an entry, all earlier entries that the group
// has read are acknowledged, which happens only after publication, or the process has published
// them itself. For this, all consumers of the group share one name, and entries that one process
// has read and not acknowledged are the first that the next one reads.
type Out struct {
	*Bridge

	buffers map[string][]store.Message // entries to publish, by tenant, in order
	unsure  map[string]bool            // tenants that may have pending entries that are not buffered
	known   []string                   // tenants of the last step, sorted
	handled []stream.Handled           // published but not acknowledged
}

// consumer is the name that all consumers of the group share.
const consumer = "bridge"

func newOut(b *Bridge) *Out {
	return &Out{Bridge: b, buffers: map[string][]store.Message{}, unsure: map[string]bool{}}
}

// wants reports whether entries of a type are published.
func (o *Out) wants(t event.Type) bool {
	switch name := string(t); {
	case strings.HasPrefix(name, event.LifecyclePrefix):
		return o.opts.Lifecycle
	case strings.HasPrefix(name, event.Prefix):
		return o.opts.Own
	default:
		return o.opts.Emitted
	}
}

func (o *Out) reader(tenants ...string) stream.Reader {
	return stream.Reader{Group: o.opts.Group, Consumer: consumer, Tenants: tenants, Wants: o.wants, Continuous: o.opts.Block > 0}
}

// Step publishes the entries of the tenants' streams. If there are none, it waits for some.
func (o *Out) Step(ctx context.Context) (wake time.Time, err error) {
	tenants := o.adopt()
	if len(tenants) == 0 {
		o.wait(ctx)
		return wake, nil
	}
	unacknowledged := o.acknowledge(ctx)
	if store.Down(o.store, unacknowledged) {
		return wake, unacknowledged
	}
	now, err := o.read(ctx, tenants)
	if err = errors.Join(unacknowledged, err); store.Down(o.store, err) {
		return now, err
	}
	if err == nil && len(o.buffers) == 0 && len(o.handled) == 0 && len(o.unsure) == 0 {
		return wake, nil
	}
	return now, errors.Join(err, o.publish(ctx))
}

// adopt returns the tenants that this process bridges, and drops held entries of others.
func (o *Out) adopt() []string {
	tenants := o.tenants()
	for _, tenant := range tenants {
		if _, before := slices.BinarySearch(o.known, tenant); !before {
			o.unsure[tenant] = true
		}
	}
	for _, tenant := range o.known {
		if _, now := slices.BinarySearch(tenants, tenant); !now {
			delete(o.buffers, tenant)
			delete(o.unsure, tenant)
		}
	}
	o.known = tenants
	return tenants
}

// read fills the empty buffers. It waits for entries if all of them stay empty.
func (o *Out) read(ctx context.Context, tenants []string) (now time.Time, err error) {
	failed := o.readPending(ctx)
	if store.Down(o.store, failed) {
		return now, failed
	}
	var empty []string
	for _, tenant := range tenants {
		if len(o.buffers[tenant]) == 0 && !o.unsure[tenant] {
			empty = append(empty, tenant)
		}
	}
	if len(empty) == 0 {
		now, err := o.store.Now(ctx)
		return now, errors.Join(failed, err)
	}
	block := o.opts.Block
	if len(empty) < len(tenants) {
		block = 0
	}
	got, err := o.streams.Read(ctx, o.reader(empty...), o.opts.Batch, block)
	if err != nil {
		for _, tenant := range empty { // the entries may have been read although the reply was lost
			o.unsure[tenant] = true
		}
		return got.Now, errors.Join(failed, err)
	}
	first := map[string]string{}
	note := func(tenant, id string) {
		if first[tenant] == "" || store.CompareIDs(id, first[tenant]) < 0 {
			first[tenant] = id
		}
	}
	for _, m := range got.Messages {
		note(m.Tenant, m.ID)
		o.buffers[m.Tenant] = append(o.buffers[m.Tenant], m)
	}
	for _, unwanted := range got.Unwanted {
		note(unwanted.Tenant, unwanted.ID)
		o.handled = append(o.handled, unwanted)
	}
	return got.Now, errors.Join(failed, o.checkOrder(ctx, first))
}

// checkOrder drops what was read for tenants that have earlier pending entries so that those are
// read first: another process has read them, or this one did and lost the reply.
func (o *Out) checkOrder(ctx context.Context, first map[string]string) error {
	if len(first) == 0 {
		return nil
	}
	tenants := make([]string, 0, len(first))
	for tenant := range first {
		tenants = append(tenants, tenant)
		o.unsure[tenant] = true // until checked
	}
	pending, err := o.streams.FirstPending(ctx, o.opts.Group, tenants)
	for _, tenant := range tenants {
		if earliest, known := pending[tenant]; !known || earliest != "" && store.CompareIDs(earliest, first[tenant]) < 0 {
			delete(o.buffers, tenant)
			continue
		}
		delete(o.unsure, tenant)
	}
	return err
}

// readPending fills the buffers of unsure tenants with the first entries that the group has read
// and not acknowledged. A tenant without such entries is no longer unsure.
func (o *Out) readPending(ctx context.Context) error {
	var tenants []string
	for _, tenant := range o.known {
		if o.unsure[tenant] && len(o.buffers[tenant]) == 0 {
			tenants = append(tenants, tenant)
		}
	}
	if len(tenants) == 0 {
		return nil
	}
	pending, err := o.streams.FirstPending(ctx, o.opts.Group, tenants)
	if store.Down(o.store, err) {
		return err
	}
	now, otherErr := o.store.Now(ctx)
	if otherErr != nil {
		return errors.Join(err, otherErr)
	}
	errs := []error{err}
	for _, tenant := range tenants {
		earliest, known := pending[tenant]
		if !known {
			continue
		}
		if earliest == "" {
			delete(o.unsure, tenant)
			continue
		}
		msgs, err := o.streams.ReadPending(ctx, o.reader(tenant), tenant, o.opts.Batch, now)
		if errs = append(errs, err); store.Down(o.store, err) {
			break
		}
		for j := range msgs {
			if m := msgs[j]; m.Err == nil && !o.wants(m.Event.Type) {
				o.handled = append(o.handled, stream.Handled{Tenant: tenant, ID: m.ID})
			} else {
				o.buffers[tenant] = append(o.buffers[tenant], m)
			}
		}
	}
	return errors.Join(errs...)
}

// publish publishes the buffers in waves. No two messages of a wave have the same key so that
// whatever fails, no entry overtakes an earlier one of its execution.
func (o *Out) publish(ctx context.Context) error {
	var errs []error
	stopped := map[string]bool{} // tenants with an entry that could not be published now
	for {
		wave, messages, err := o.wave(ctx, stopped)
		if len(wave) > 0 && !store.Down(o.store, err) {
			errs = append(errs, o.publishWave(ctx, wave, messages, stopped)...)
		}
		err = errors.Join(err, o.acknowledge(ctx))
		if errs = append(errs, err); len(wave) == 0 || store.Down(o.store, err) {
			return errors.Join(errs...)
		}
	}
}

// wave returns the next entries to publish, and their messages. Entries that are not published
// count as handled. A tenant whose entries cannot be loaded is stopped.
func (o *Out) wave(ctx context.Context, stopped map[string]bool) (wave []store.Message, messages []cloudevents.Message, err error) {
	for _, tenant := range o.known {
		if stopped[tenant] {
			continue
		}
		if otherErr := o.load(ctx, tenant); otherErr != nil {
			stopped[tenant], err = true, errors.Join(err, otherErr)
			continue
		}
		keys := map[string]bool{}
		left := o.buffers[tenant][:0:0]
		for i, m := range o.buffers[tenant] {
			if m.Omitted {
				left = append(left, o.buffers[tenant][i:]...)
				break
			}
			out, ok := o.message(&m)
			if !ok {
				o.handled = append(o.handled, stream.Handled{Tenant: tenant, ID: m.ID})
				continue
			}
			if left = append(left, m); !keys[string(out.Key)] {
				keys[string(out.Key)] = true
				wave, messages = append(wave, m), append(messages, out)
			}
		}
		o.setBuffer(tenant, left)
	}
	return wave, messages, err
}

// load reads the first entries of a tenant's buffer if they were too large to be read with others.
func (o *Out) load(ctx context.Context, tenant string) error {
	buffer := o.buffers[tenant]
	n := 0
	for n < len(buffer) && buffer[n].Omitted {
		n++
	}
	if n == 0 {
		return nil
	}
	loaded, left, err := o.streams.Load(ctx, o.reader(tenant), buffer[:n])
	if err != nil {
		return err
	}
	o.handled = append(o.handled, loaded.Unwanted...)
	o.setBuffer(tenant, append(append(loaded.Messages, left...), buffer[n:]...))
	return nil
}

func (o *Out) setBuffer(tenant string, left []store.Message) {
	o.buffers[tenant] = left
	if len(left) == 0 {
		delete(o.buffers, tenant)
	}
}

// message returns the message for an entry, or false if the entry is not published. Secrets stay
// sealed. An entry that came from the broker does not go back, and one that a service delivers
// again is already published. An entry that is not an event is reported by the worker.
func (o *Out) message(m *store.Message) (cloudevents.Message, bool) {
	e, err := event.FromFields(store.Unpack(m.Fields()))
	if err != nil || m.Err != nil || m.Attempt > 0 || e.Ext[cloudevents.OriginAttribute] != "" {
		return cloudevents.Message{}, false
	}
	e.Tenant = m.Tenant
	for _, name := range []string{event.AttemptAttribute, event.ReplayAttribute} {
		delete(e.Ext, name)
	}
	out := o.opts.Mode.Encode(e, m.ID)
	out.Topic = topicOf(o.opts.Topic, m.Tenant)
	return out, true
}

// publishWave publishes a wave and removes from the buffers what is published or never will be.
func (o *Out) publishWave(ctx context.Context, wave []store.Message, messages []cloudevents.Message, stopped map[string]bool) []error {
	done := map[stream.Handled]bool{}
	count := map[Activity]int{}
	failed := map[string]error{}
	for i, err := range o.opts.Sink.Publish(ctx, messages) {
		m := wave[i]
		if err != nil && errors.Is(err, cloudevents.ErrRefused) {
			dead := event.Dead{Reason: fmt.Sprintf("publish to %s: %v", messages[i].Topic, err), Attempts: 1, Service: o.opts.Group}
			_, otherErr := o.streams.DeadLetter(ctx, m, dead, nil)
			if otherErr == nil {
				o.opts.observe(Activity{What: Refused, Tenant: m.Tenant, Topic: messages[i].Topic, Count: 1, Err: err})
			}
			err = otherErr
		} else if err == nil {
			o.handled = append(o.handled, stream.Handled{Tenant: m.Tenant, ID: m.ID})
			count[Activity{What: Published, Tenant: m.Tenant, Topic: messages[i].Topic}]++
		}
		if err != nil {
			count[Activity{What: Unpublished, Tenant: m.Tenant, Topic: messages[i].Topic}]++
			failed[m.Tenant], stopped[m.Tenant] = err, true
			continue
		}
		done[stream.Handled{Tenant: m.Tenant, ID: m.ID}] = true
	}
	for tenant, buffer := range o.buffers {
		o.setBuffer(tenant, slices.DeleteFunc(buffer, func(m store.Message) bool {
			return done[stream.Handled{Tenant: tenant, ID: m.ID}]
		}))
	}
	for a, n := range count {
		if a.Count = n; a.What == Unpublished {
			a.Err = failed[a.Tenant]
		}
		o.opts.observe(a)
	}
	var errs []error
	for _, tenant := range o.known {
		if err := failed[tenant]; err != nil {
			errs = append(errs, fmt.Errorf("publish events of %s: %w", tenant, err))
		}
	}
	return errs
}

// acknowledge acknowledges published entries.
func (o *Out) acknowledge(ctx context.Context) error {
	r := o.reader()
	r.Handled = o.handled
	err := o.streams.Acknowledge(ctx, r)
	if store.Down(o.store, err) {
		return err
	}
	for _, e := range r.Handled {
		if _, ours := slices.BinarySearch(o.known, e.Tenant); ours && err != nil {
			o.unsure[e.Tenant] = true // what is still pending is published again
		}
	}
	o.handled = nil
	return err
}

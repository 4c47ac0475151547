package cmd

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/store"
)

// deadLetterFilter says which dead letters are meant.
type deadLetterFilter struct {
	service, reason, workflow, execution, age, since string
	everyone, others                                 bool
}

// deadLetterFlags adds the flags that say so.
func deadLetterFlags(c *cobra.Command) *deadLetterFilter {
	var w deadLetterFilter
	f := c.Flags()
	f.StringVar(&w.service, "service", "", "only those that the service of this `NAME` gave up")
	f.StringVar(&w.reason, "reason", "", "only those with this `TEXT` in their reason")
	f.StringVar(&w.workflow, "workflow", "", "only those of the workflow of this `NAME`, namespace.name")
	f.StringVar(&w.execution, "execution", "", "only those of the execution of this `ID`")
	f.StringVar(&w.age, "age", "", "only those that died longer ago than this `DURATION` (1h, P1D)")
	f.StringVar(&w.since, "since", "", "only those that died within this `DURATION`, or since this time (RFC 3339)")
	f.BoolVarP(&w.everyone, "all-tenants", "A", false, "include all tenants")
	f.BoolVar(&w.others, "other-streams", false, "look at every key for streams of workflows, and at all events there")
	offer(c, "service", newChoice(store.WorkerGroup, store.ExecutorGroup, store.TimerGroup))
	return &w
}

// passes reports whether a letter is meant, but for when it died.
func (w *deadLetterFilter) passes(l store.DeadLetter) bool {
	return (w.service == "" || strings.TrimSuffix(w.service, "-service") == strings.TrimSuffix(l.Service, "-service")) &&
		strings.Contains(strings.ToLower(l.Reason), strings.ToLower(w.reason)) &&
		(w.workflow == "" || w.workflow == l.Event.Workflow) &&
		(w.execution == "" || w.execution == l.Event.Execution)
}

// span are the ids between which the letters are that died when the flags say.
func (w *deadLetterFilter) span(now time.Time) (from, to string, err error) {
	if w.age != "" {
		at, err := ago(now, w.age)
		if err != nil {
			return "", "", misusef("--age %q: %v", w.age, err)
		}
		to = strconv.FormatInt(max(at.UnixMilli(), 0), 10)
	}
	if w.since != "" {
		at, err := ago(now, w.since)
		if err != nil {
			return "", "", misusef("--since %q: %v", w.since, err)
		}
		from = strconv.FormatInt(max(at.UnixMilli(), 0), 10)
	}
	return from, to, nil
}

// deadLetterSource is a stream that holds dead letters.
type deadLetterSource struct{ tenant, stream string }

// sources are the streams with the letters that are meant, and how many entries
// of those of another key scheme are looked at.
func (w *deadLetterFilter) sources(ctx context.Context, r *remote) (sources []deadLetterSource, entries int, err error) {
	tenants, pattern := []string{r.tenant}, r.tenant
	if w.everyone {
		pattern = ""
		if tenants, err = r.store.DeadTenants(ctx); err != nil {
			return nil, 0, err
		}
	}
	for _, tenant := range tenants {
		sources = append(sources, deadLetterSource{tenant: tenant})
	}
	others, entries, err := otherStreams(ctx, r, pattern, w.others)
	for _, other := range others {
		sources = append(sources, deadLetterSource{tenant: other.Tenant, stream: other.Key})
	}
	return sources, entries, err
}

// deadLetterRef is what a letter is called on the command line: its id in the dead
// letters of the tenant, behind the name of another tenant or of a stream.
func deadLetterRef(r *remote, l store.DeadLetter) string {
	switch {
	case strings.Contains(l.Stream, ":workflow:"):
		return l.Stream + "/" + l.ID
	case l.Tenant != r.tenant:
		return l.Tenant + "/" + l.ID
	default:
		return l.ID
	}
}

// sourceOf takes apart what a letter is called.
func sourceOf(r *remote, ref string) (source deadLetterSource, id string) {
	at := strings.LastIndex(ref, "/")
	if at < 0 {
		return deadLetterSource{tenant: r.tenant}, ref
	}
	place, id := ref[:at], ref[at+1:]
	if tenant, _, ok := strings.Cut(strings.TrimPrefix(place, "tenant:"), ":workflow:"); ok {
		return deadLetterSource{tenant: tenant, stream: place}, id
	}
	return deadLetterSource{tenant: place}, id
}

// findDeadLetter finds a letter by what it is called.
func findDeadLetter(ctx context.Context, r *remote, ref string) (store.DeadLetter, error) {
	source, id := sourceOf(r, ref)
	l, err := r.store.Letter(ctx, source.tenant, source.stream, id)
	return l, badID(err)
}

// newest are the letters behind one, up to one more than limit, the newest first.
func (w *deadLetterFilter) newest(ctx context.Context, r *remote, now time.Time, after string, limit int) ([]store.DeadLetter, error) {
	from, to, err := w.span(now)
	if err != nil {
		return nil, err
	}
	behind, err := deadLetterAfter(r, after)
	if err != nil {
		return nil, err
	}
	to = firstID(to, behind.ID)
	sources, entries, err := w.sources(ctx, r)
	if err != nil {
		return nil, err
	}
	var found []store.DeadLetter
	for _, source := range sources {
		here := 0
		q := store.DeadLetterQuery{Tenant: source.tenant, Stream: source.stream, From: from, To: to}
		err := w.each(ctx, r, q, entries, func(l store.DeadLetter) bool {
			if after == "" || newerFirst(behind, l) {
				found = append(found, l)
				here++
			}
			return limit == 0 || here <= limit
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, byAge)
	if limit > 0 && len(found) > limit+1 {
		found = found[:limit+1]
	}
	return found, nil
}

// deadLetterAfter is the place in a list of letters that an id says.
func deadLetterAfter(r *remote, after string) (store.DeadLetter, error) {
	source, id := sourceOf(r, after)
	if strings.Trim(id, "0123456789-") != "" {
		return store.DeadLetter{}, misusef("--after %q: want the id of a dead letter", after)
	}
	return store.DeadLetter{Tenant: source.tenant, Stream: source.stream, ID: id}, nil
}

// byAge sorts letters, the newest first.
func byAge(a, b store.DeadLetter) int {
	if newerFirst(a, b) {
		return -1
	}
	return 1
}

// newerFirst is the order of a list of letters.
func newerFirst(a, b store.DeadLetter) bool {
	if a.ID != b.ID {
		return earlierID(b.ID, a.ID)
	}
	return placeOf(a) < placeOf(b)
}

// placeOf tells letters of one id apart.
func placeOf(l store.DeadLetter) string {
	if strings.Contains(l.Stream, ":workflow:") {
		return l.Stream
	}
	return l.Tenant
}

// firstID is the earlier of two ids; "" is the end of all.
func firstID(a, b string) string {
	if a == "" || b != "" && earlierID(b, a) {
		return b
	}
	return a
}

// earlierID compares ids of entries; one without a number behind the dash is
// the last one of its millisecond.
func earlierID(a, b string) bool {
	aTime, aNumber, _ := strings.Cut(a, "-")
	bTime, bNumber, _ := strings.Cut(b, "-")
	if aTime != bTime {
		return shorter(aTime, bTime)
	}
	return aNumber != bNumber && aNumber != "" && (bNumber == "" || shorter(aNumber, bNumber))
}

// shorter compares numbers without reading them.
func shorter(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// each shows the letters of a stream that are meant to f, until it has enough.
// Of a stream of another key scheme so many entries are looked at.
func (w *deadLetterFilter) each(ctx context.Context, r *remote, q store.DeadLetterQuery, entries int, f func(store.DeadLetter) bool) error {
	for q.Count = 200; ; {
		deadLetters, next, err := r.store.DeadLetters(ctx, q)
		if err != nil {
			return err
		}
		for _, l := range deadLetters {
			if w.passes(l) && !f(l) {
				return nil
			}
		}
		entries -= q.Count
		if next == "" || q.Stream != "" && entries <= 0 {
			return nil
		}
		q = q.At(next)
	}
}

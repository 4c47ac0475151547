package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
)

// deadLetterFilter selects dead letters.
type deadLetterFilter struct {
	service, reason, workflow, execution, age, since string
	allTenants, others                               bool
}

// deadLetterFlags adds the flags of the filter.
func deadLetterFlags(c *cobra.Command) *deadLetterFilter {
	var w deadLetterFilter
	f := c.Flags()
	f.StringVar(&w.service, "service", "", "only those from the service `NAME`")
	f.StringVar(&w.reason, "reason", "", "only those whose reason contains `TEXT`")
	f.StringVar(&w.workflow, "workflow", "", "only those of the workflow `NAME`, with or without its namespace")
	f.StringVar(&w.execution, "execution", "", "only those of the execution `ID`")
	f.StringVar(&w.age, "age", "", "only those older than `DURATION` (1h, 3d, P1D)")
	f.StringVar(&w.since, "since", "", "only those of the last `DURATION`, or since a time (RFC 3339)")
	cli.AllTenantsFlag(c, &w.allTenants, "include all tenants")
	f.BoolVar(&w.others, "other-streams", false, "search all keys for streams of workflows, and all their events")
	cli.Offer(c, "service", cli.NewChoice(store.WorkerGroup, store.ExecutorGroup, store.TimerGroup))
	return &w
}

// passes reports whether a dead letter matches the filter, apart from its time.
func (f *deadLetterFilter) passes(l stream.DeadLetter) bool {
	return (f.service == "" || strings.TrimSuffix(f.service, "-service") == strings.TrimSuffix(l.Service, "-service")) &&
		strings.Contains(strings.ToLower(l.Reason), strings.ToLower(f.reason)) &&
		(f.workflow == "" || event.IsWorkflow(l.Event.Workflow, f.workflow)) &&
		(f.execution == "" || f.execution == l.Event.Execution)
}

// span returns the range of ids that matches the times of the filter.
func (f *deadLetterFilter) span(now time.Time) (from, to string, err error) {
	if f.age != "" {
		at, err := sinceFlag("age", f.age, now)
		if err != nil {
			return "", "", err
		}
		to = strconv.FormatInt(max(at.UnixMilli(), 0), 10) + lastNumber
	}
	if f.since != "" {
		at, err := sinceFlag("since", f.since, now)
		if err != nil {
			return "", "", err
		}
		from = strconv.FormatInt(max(at.UnixMilli(), 0), 10)
	}
	return from, to, nil
}

// lastNumber makes the id of an entry from a time: the last one of its millisecond.
const lastNumber = "-18446744073709551615"

// deadLetterSource is a stream that contains dead letters.
type deadLetterSource struct{ tenant, stream string }

// sources returns the streams that can contain matching dead letters, and the maximum
// number of entries to search in each stream of the other key scheme. If a master of a cluster does
// not respond, it returns those of the others and an error.
func (f *deadLetterFilter) sources(ctx context.Context, r *cli.Remote) (sources []deadLetterSource, entries int, err error) {
	tenants, pattern := []string{r.Tenant}, r.Tenant
	if f.allTenants {
		pattern = ""
		tenants, err = inspect.New(r.Store).DeadTenants(ctx)
	}
	for _, tenant := range tenants {
		sources = append(sources, deadLetterSource{tenant: tenant})
	}
	others, entries, otherErr := otherStreams(ctx, r, pattern, f.others)
	for _, other := range others {
		sources = append(sources, deadLetterSource{tenant: other.Tenant, stream: other.Key})
	}
	if err = cmp.Or(err, otherErr); err != nil && r.Store.Clustered() {
		err = fmt.Errorf("dead letters on other masters, if there are any, are missing: %w", err)
	}
	return sources, entries, err
}

// deadLetterRef returns the name of a dead letter on the command line: its id, with the
// stream as a prefix in the other key scheme, or with the tenant if it is not that of the
// command.
func deadLetterRef(r *cli.Remote, l stream.DeadLetter) string {
	switch _, other := store.OtherStream(l.Stream); {
	case other:
		return l.Stream + "/" + l.ID
	case l.Tenant != r.Tenant:
		return l.Tenant + "/" + l.ID
	default:
		return l.ID
	}
}

// sourceOf parses a name made by deadLetterRef.
func sourceOf(r *cli.Remote, ref string) (source deadLetterSource, id string) {
	at := strings.LastIndex(ref, "/")
	if at < 0 {
		return deadLetterSource{tenant: r.Tenant}, ref
	}
	place, id := ref[:at], ref[at+1:]
	if tenant, ok := store.OtherStream(place); ok {
		return deadLetterSource{tenant: tenant, stream: place}, id
	}
	return deadLetterSource{tenant: place}, id
}

// findDeadLetter finds a dead letter by a name that deadLetterRef returns.
func findDeadLetter(ctx context.Context, r *cli.Remote, ref string) (stream.DeadLetter, error) {
	source, id := sourceOf(r, ref)
	l, err := stream.New(r.Store).FindDeadLetter(ctx, source.tenant, source.stream, id)
	return l, cli.BadID(err)
}

// newest returns at most limit+1 matching dead letters that follow a given one, newest
// first. If a master of a cluster does not respond, it returns those of the others and an error.
func (f *deadLetterFilter) newest(ctx context.Context, r *cli.Remote, now time.Time, after string, limit int) ([]stream.DeadLetter, error) {
	from, to, err := f.span(now)
	if err != nil {
		return nil, err
	}
	behind, err := deadLetterAfter(r, after)
	if err != nil {
		return nil, err
	}
	if behind.ID != "" && (to == "" || store.CompareIDs(behind.ID, to) < 0) {
		to = behind.ID
	}
	sources, entries, missing := f.sources(ctx, r)
	var found []stream.DeadLetter
	for _, source := range sources {
		here := 0
		q := stream.DeadLetterQuery{Tenant: source.tenant, Stream: source.stream, Range: store.Range{From: from, To: to}}
		err := f.each(ctx, r, q, entries, func(l stream.DeadLetter) bool {
			if after == "" || newestFirst(behind, l) < 0 {
				found = append(found, l)
				here++
			}
			return limit == 0 || here <= limit
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, newestFirst)
	if limit > 0 && len(found) > limit+1 {
		found = found[:limit+1]
	}
	return found, missing
}

// deadLetterAfter parses --after, a position in a listing.
func deadLetterAfter(r *cli.Remote, after string) (stream.DeadLetter, error) {
	source, id := sourceOf(r, after)
	if !entryID(id) {
		return stream.DeadLetter{}, cli.Misusef("--after %q: want the id of a dead letter, as 'flunq dlq ls' prints it", after)
	}
	if id != "" && !strings.Contains(id, "-") {
		id += lastNumber
	}
	return stream.DeadLetter{Tenant: source.tenant, Stream: source.stream, ID: id}, nil
}

// entryID reports whether a text may be the id of an entry of a stream, or its first part. It may be empty.
func entryID(text string) bool {
	for part := range strings.SplitSeq(text, "-") {
		if _, err := strconv.ParseUint(part, 10, 64); err != nil {
			return text == ""
		}
	}
	return strings.Count(text, "-") <= 1
}

// newestFirst compares dead letters in the order of a listing.
func newestFirst(a, b stream.DeadLetter) int {
	return cmp.Or(store.CompareIDs(b.ID, a.ID), strings.Compare(placeOf(a), placeOf(b)))
}

// placeOf distinguishes dead letters with the same id.
func placeOf(l stream.DeadLetter) string {
	if _, other := store.OtherStream(l.Stream); other {
		return l.Stream
	}
	return l.Tenant
}

// each calls yield with the matching dead letters of a stream until yield returns false. In a
// stream of the other key scheme it reads about as many entries as given.
func (f *deadLetterFilter) each(ctx context.Context, r *cli.Remote, q stream.DeadLetterQuery, entries int, yield func(stream.DeadLetter) bool) error {
	for q.Count = 200; ; {
		deadLetters, next, err := stream.New(r.Store).DeadLetters(ctx, q)
		if err != nil {
			return err
		}
		for _, l := range deadLetters {
			if f.passes(l) && !yield(l) {
				return nil
			}
		}
		entries -= q.Count
		if next == "" || q.Stream != "" && entries <= 0 {
			return nil
		}
		q.Range = q.At(next)
	}
}

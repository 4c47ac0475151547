package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// Entry is an entry of a stream. Fields alternates names and values, in their original order.
type Entry struct {
	ID     string
	Fields []string
}

// Range selects entries of a stream.
type Range struct {
	From, To string // ids, both included; "" for the ends
	Oldest   bool   // the oldest first
	Brief    bool   // without long data
	Count    int
}

// At returns the rest of the range, from an id on.
func (r Range) At(next string) Range {
	if r.Oldest {
		r.From = next
	} else {
		r.To = next
	}
	return r
}

// Next returns the id to continue from after these entries; "" at the end of the range.
func (r Range) Next(entries []Entry) string {
	if n := len(entries); n > 0 && n == r.Count {
		return adjacent(entries[n-1].ID, r.Oldest)
	}
	return ""
}

// LongData is the length in bytes above which a brief Range leaves out data.
const LongData = 2048

// Entries reads entries of the stream at a key.
func (s *Store) Entries(ctx context.Context, stream string, r Range) ([]Entry, error) {
	from, to := cmp.Or(r.From, "-"), cmp.Or(r.To, "+")
	args := []any{"XREVRANGE", stream, to, from, "COUNT", r.Count}
	if r.Oldest {
		args = []any{"XRANGE", stream, from, to, "COUNT", r.Count}
	}
	var cmd *redis.Cmd // go-redis' own form of a range does not keep the order of fields
	if r.Brief {
		cmd = briefScript().Run(ctx, s.rdb, []string{stream}, append([]any{LongData}, args...)...)
	} else {
		cmd = s.rdb.Do(ctx, args...)
	}
	reply, err := cmd.Slice()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	out := make([]Entry, 0, len(reply))
	for _, item := range reply {
		parts, _ := item.([]any)
		if len(parts) != 2 {
			continue // the entry was deleted during the read
		}
		out = append(out, Entry{ID: wire.List(parts).Text(0), Fields: wire.List(parts).List(1).Texts()})
	}
	return out, nil
}

// adjacent returns the next id, or the previous one.
func adjacent(id string, after bool) string {
	ms, seq, _ := strings.Cut(id, "-")
	m, err := strconv.ParseUint(ms, 10, 64)
	n, otherErr := strconv.ParseUint(seq, 10, 64)
	if err != nil || otherErr != nil {
		return id
	}
	switch {
	case after && n == math.MaxUint64:
		m, n = m+1, 0
	case after:
		n++
	case n > 0:
		n--
	case m > 0:
		m, n = m-1, math.MaxUint64
	}
	return fmt.Sprintf("%d-%d", m, n)
}

// FieldsOfJSON returns the members of a JSON object as fields of an entry: strings unquoted,
// everything else as JSON. It returns none if text is not an object.
func FieldsOfJSON(text []byte) map[string]string {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil
	}
	out := make(map[string]string, len(members))
	for name, value := range members {
		var plain string
		if json.Unmarshal(value, &plain) != nil {
			plain = string(value)
		}
		out[name] = plain
	}
	return out
}

// IDRange is the smallest range that contains some entries of a stream.
type IDRange struct{ First, Last string }

// Add extends the range to contain an entry.
func (r *IDRange) Add(id string) {
	if r.First == "" || CompareIDs(id, r.First) < 0 {
		r.First = id
	}
	if r.Last == "" || CompareIDs(id, r.Last) > 0 {
		r.Last = id
	}
}

// CompareIDs compares two ids of entries by their order in the stream.
func CompareIDs(a, b string) int {
	ms, number, _ := strings.Cut(a, "-")
	otherMS, otherNumber, _ := strings.Cut(b, "-")
	return cmp.Or(
		cmp.Compare(len(ms), len(otherMS)), cmp.Compare(ms, otherMS),
		cmp.Compare(len(number), len(otherNumber)), cmp.Compare(number, otherNumber),
	)
}

// PendingCount returns how many pending entries of a range to read in order to find n given ones:
// other entries in progress may lie between them.
func PendingCount(n int) int {
	if n == 1 {
		return 2 // one more than possible
	}
	return 2*n + 16
}

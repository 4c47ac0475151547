package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"slices"

	"flunq.io/flunq/engine/event"
)

// trace hashes events in their order.
type trace struct {
	hash hash.Hash
	text []byte // buffer for the event that is added
}

func newTrace() *trace { return &trace{hash: sha256.New()} }

func (t *trace) add(e event.Event) {
	t.text = append(e.AppendFields(t.text[:0]), 1)
	t.hash.Write(t.text)
}

func (t *trace) sum() string { return hex.EncodeToString(t.hash.Sum(nil)) }

// outcome returns a hash of how an execution ended and of its effects, independent of the
// order of events.
func outcome(r *Result) string {
	h := sha256.New()
	h.Write([]byte(r.Status))
	h.Write([]byte{0})
	h.Write(r.Output)
	h.Write([]byte{0})
	if r.Error != nil {
		h.Write(event.Encode(r.Error))
	}
	if r.Effects != "" { // earlier versions had no effects
		h.Write([]byte{0})
		h.Write([]byte(r.Effects))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sortArrivals(arrivals []arrival) {
	slices.SortStableFunc(arrivals, func(a, b arrival) int { return a.at.Compare(b.at) })
}

func unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }

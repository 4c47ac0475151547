package executor

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/store"
)

// waiting returns a line of requests, each written as tenant and number.
func waiting(texts ...string) *line {
	l := &line{}
	for _, text := range texts {
		l.put(&job{message: store.Message{Tenant: text[:1], ID: text[1:]}})
	}
	return l
}

// emptied returns the order in which a line's requests begin.
func emptied(l *line) string {
	var out []string
	for j := l.first(nil); j != nil; j = l.first(nil) {
		out = append(out, j.message.Tenant+j.message.ID)
		l.shift()
	}
	return strings.Join(out, " ")
}

// Tenants take turns, however many requests each has, and each tenant's requests keep
// their order.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	l := waiting("a1", "a2", "a3", "b1", "c1", "c2")
	if got, want := emptied(l), "a1 b1 c1 a2 c2 a3"; got != want || l.size != 0 || len(l.of) != 0 {
		t.Errorf("the turns are %s, want %s, and %d are left", got, want, l.size)
	}
	l.put(&job{message: store.Message{Tenant: "a", ID: "4"}})
	if got := emptied(l); got != "a4" {
		t.Errorf("then comes %s, want a4", got)
	}
}

// A turn may be longer than one request; it ends before the next tenant's.
func TestTurnsAreEnded(t *testing.T) {
	t.Parallel()
	l := waiting("a1", "a2", "a3", "b1", "c1", "c2")
	l.pull()
	l.pull()
	l.turn()
	l.turn()
	l.pull() // all that b has
	l.turn()
	if got, want := emptied(l), "c1 a3 c2"; got != want {
		t.Errorf("then come %s, want %s", got, want)
	}
}

// Dropped requests block nobody.
func TestDropped(t *testing.T) {
	t.Parallel()
	l := waiting("a1", "a2", "b1", "c1")
	l.drop(func(j *job) bool { return j.message.ID == "1" })
	if got := emptied(l); got != "a2" {
		t.Errorf("%s are left, want a2", got)
	}
}

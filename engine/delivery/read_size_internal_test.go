package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/store/stream"
)

// noon is when the tests begin.
func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// events returns some events of each tenant.
func events(each int, tenants ...string) (found []stream.Found) {
	for _, tenant := range tenants {
		found = append(found, stream.Found{Tenant: tenant, Events: each})
	}
	return found
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("t%04d", i))
	}
	return out
}

// Between two reads of many tenants, only those with events are read.
func TestRecentTenantsAreReadInBetween(t *testing.T) {
	t.Parallel()
	all := names(1000) // read every 15 ms
	var l recentTenants
	if some, _ := l.next(all, time.Second); some != nil {
		t.Errorf("the first read is of %v, want all", some)
	}
	l.saw(events(3, "t0007", "t0100"), nil, noon())
	some, patience := l.next(all, time.Second)
	if !slices.Equal(some, []string{"t0007", "t0100"}) || patience != 15*time.Millisecond {
		t.Errorf("the next read is of %v and lasts %v, want t0007 and t0100, and 15ms", some, patience)
	}
	l.at(noon().Add(6 * time.Millisecond))
	if some, patience := l.next(all, 2*time.Millisecond); len(some) != 2 || patience != 2*time.Millisecond {
		t.Errorf("a read with a shorter block is of %v and lasts %v, want two tenants and 2ms", some, patience)
	}
	if some, _ := l.next(all, 0); some != nil {
		t.Errorf("a read that does not wait is of %v, want all", some)
	}
	if some, _ := l.next(all[:50], time.Second); some != nil {
		t.Errorf("with few tenants the read is of %v, want all", some)
	}
	l.at(noon().Add(15 * time.Millisecond))
	if some, _ := l.next(all, time.Second); some != nil {
		t.Errorf("after the pause the read is of %v, want all", some)
	}
	l.at(time.Time{})
	if some, _ := l.next(all, time.Second); some != nil {
		t.Errorf("after an error the read is of %v, want all", some)
	}
}

// A read of all tenants stays small, and a single tenant with many events gets larger
// reads.
func TestReadSizeOfManyTenants(t *testing.T) {
	t.Parallel()
	var p readSize
	if n := p.of(20, 100); n != 100 {
		t.Errorf("of each of 20 tenants %d events are read, want 100", n)
	}
	p = readSize{}
	if n := p.of(1000, 100); n != minEvents {
		t.Errorf("of each of 1000 tenants %d events are read, want %d", n, minEvents)
	}
	for _, want := range []int{8, 16, 32, 64, 100, 100} {
		p.saw(events(p.of(1000, 100), "t0003"), p.of(1000, 100))
		if n := p.of(1000, 100); n != want {
			t.Fatalf("of a tenant with many events %d events are read, want %d", n, want)
		}
	}
	p.saw(events(3, names(1000)...), 100)
	if n := p.of(1000, 100); n != 50 {
		t.Errorf("after a read that was too large, %d events of each tenant are read, want 50", n)
	}
}

// While events are large, fewer are read in one call, until they are small again.
func TestReadSizeOfLargeEvents(t *testing.T) {
	t.Parallel()
	var p readSize
	saw := func(n, bytes int) {
		p.saw([]stream.Found{{Tenant: "a", Events: n, Bytes: bytes}, {Tenant: "b", Events: 1, Bytes: 100}}, 100)
	}
	saw(100, 15*maxBytes)
	for _, want := range []int{6, 12, 6, 12} {
		large, got := p.large([]string{"a", "b"})
		if got != want || len(large) != 1 || large[0] != "a" {
			t.Fatalf("%d events are read of %v, want %d of a", got, large, want)
		}
		saw(got, got*maxBytes*15/100)
	}
	for range 10 {
		saw(1, 1000)
	}
	if large, _ := p.large([]string{"a", "b"}); len(large) > 0 {
		t.Errorf("%v still count as having large events, want none", large)
	}
}

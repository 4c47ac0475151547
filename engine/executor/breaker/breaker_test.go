package breaker_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/executor/breaker"
)

// at returns the time seconds after the start.
func at(seconds int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func breakers(t *testing.T, opts breaker.Options) *breaker.Set {
	t.Helper()
	b, err := breaker.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// script plays calls to hosts: one line per step, times in seconds.
//
//	0 begin a        call a to host h is allowed at 0; "begin a g": to host g
//	0 refuse         a call to h is not; "refuse g": to host g
//	a fails 40       the host of a asks for a pause of 40
//	a succeeds       or "a cancelled"
//	h closed 1       the state of h, and its consecutive failures; "h none"
//	h open 2 10      no call is sent before 10
type script struct {
	*testing.T
	breakers *breaker.Set
	calls    map[string]*breaker.Attempt
}

func (s *script) play(steps string) {
	s.Helper()
	for line := range strings.Lines(steps) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if got := s.step(words); got != "" {
			s.Errorf("%s: got %s", strings.TrimSpace(line), got)
		}
	}
}

// step plays one step and returns what differs from the expectation.
func (s *script) step(words []string) string {
	if now, err := strconv.Atoi(words[0]); err == nil {
		return s.begin(now, words[1:])
	}
	call := s.calls[words[0]]
	word := strings.Join(append(words[1:], ""), " ")
	switch words[1] {
	case "succeeds":
		call.Succeed()
	case "cancelled":
		call.Cancel()
	case "fails":
		failure := breaker.Failure{Reason: words[0] + " failed"}
		if len(words) > 2 {
			wait, err := time.ParseDuration(words[2] + "s")
			if err != nil {
				return err.Error()
			}
			failure.RetryAfter = wait
		}
		call.Fail(failure)
	default:
		if got := s.state(words[0]); got != strings.TrimSpace(word) {
			return got
		}
	}
	return ""
}

func (s *script) begin(now int, words []string) string {
	host := "h"
	last := words[len(words)-1]
	if words[0] == "begin" && len(words) > 2 || words[0] == "refuse" && len(words) > 1 {
		host = last
	}
	call, err := s.breakers.Begin(breaker.Target{Host: host}, at(now))
	if words[0] == "begin" {
		s.calls[words[1]] = call
		if err != nil {
			return err.Error()
		}
		return ""
	}
	if open := (*breaker.OpenError)(nil); !errors.As(err, &open) || open.Host != host {
		return fmt.Sprintf("%v, want an OpenError of %s", err, host)
	}
	return ""
}

func (s *script) state(host string) string {
	for _, state := range s.breakers.States() {
		if state.Host != host {
			continue
		}
		text := fmt.Sprintf("%s %d", state.State, state.Failures)
		if !state.Until.IsZero() {
			text += fmt.Sprintf(" %d", int(state.Until.Sub(at(0)).Seconds()))
		}
		return text
	}
	return "none"
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	opens := `
		0 begin a
		0 begin b
		a fails
		h closed 1
		b fails
		h open 2 10
	`
	tests := []struct {
		name  string
		opts  breaker.Options // differences from 2 failures, 10 s, at most 60 s
		steps string
	}{
		{name: "as many failures in a row as it takes open it", steps: opens + `
			9 refuse
			h open 2 10
		`},
		{name: "a success in between begins the row anew", steps: `
			0 begin a
			a fails
			1 begin b
			b succeeds
			h none
			2 begin c
			c fails
			h closed 1
		`},
		{name: "a cancelled call is neither", steps: `
			0 begin a
			0 begin b
			0 begin c
			a fails
			b cancelled
			h closed 1
			c fails
			h open 2 10
		`},
		{name: "only the first word on a call counts", steps: `
			0 begin a
			a fails
			a fails
			a succeeds
			a cancelled
			h closed 1
		`},
		{name: "after its time one call goes out, and its success closes it", steps: opens + `
			10 begin c
			h half-open 2 10
			10 refuse
			11 refuse
			c succeeds
			h closed 0
			11 begin d
			11 begin e
			d fails
			h closed 1
			e fails
			h open 2 21
		`},
		{name: "the failure of that call opens it again", steps: opens + `
			12 begin c
			c fails
			h open 3 22
			21 refuse
			22 begin d
			d succeeds
			h closed 0
		`},
		{name: "that call cancelled leaves its place to another", steps: opens + `
			10 begin c
			c cancelled
			h half-open 2 10
			11 begin d
			11 refuse
			d succeeds
			h closed 0
		`},
		{name: "a late cancellation frees no place of a later round", steps: opens + `
			10 begin c
			10 refuse
			c fails
			20 begin d
			c cancelled
			20 refuse
			d cancelled
			20 begin e
		`},
		{name: "calls begun before it opened neither close nor extend it", steps: `
			0 begin x
			0 begin y
			0 begin z
		` + opens + `
			5 refuse
			x succeeds
			h open 2 10
			y fails
			h open 2 10
			10 begin c
			z fails
			h half-open 2 10
		`},
		{name: "nor do they open it again once it is closed", steps: `
			0 begin x
			0 begin y
		` + opens + `
			10 begin c
			c succeeds
			x fails
			y fails
			h closed 0
		`},
		{name: "a success that is late does not close it while it is tried", steps: `
			0 begin x
		` + opens + `
			10 begin c
			x succeeds
			10 refuse
			c fails
			h open 3 20
		`},
		{name: "one host is not another", steps: opens + `
			1 begin c g
			c fails
			1 refuse
			g closed 1
			1 begin d g
			d fails
			g open 2 11
			10 begin e
			10 refuse g
			e succeeds
			h closed 0
			g open 2 11
		`},
		{name: "Retry-After lengthens the time, never shortens it, and is capped", steps: `
			0 begin x
			0 begin y
			0 begin z
			0 begin a
			0 begin b
			a fails 50
			h closed 1
			b fails 20
			h open 2 20
			x fails 5
			h open 2 20
			1 refuse
			y fails 40
			h open 2 41
			z fails 100000
			h open 2 300
			299 refuse
			300 begin c
		`},
		{name: "Retry-After of a probe", steps: opens + `
			10 begin c
			c fails 30
			h open 3 40
		`},
		{name: "a call that took long does not shorten the time that nothing is sent", steps: `
			0 begin a
			0 begin b
			60 begin c
			a fails
			b fails
			h open 2 70
		`},
		{name: "the time of a call that waited is not believed", steps: opens + `
			8 refuse
			0 refuse
			10 begin c g
			5 begin d
		`},
		{name: "a clock that is set back far is", steps: `
			7200 begin a
			7200 begin b
			a fails
			b fails 60
			h open 2 7260
			0 begin c
			h none
			c fails
			h closed 1
		`},
		{name: "a quiet host is forgotten", steps: `
			0 begin a
			a fails
			0 begin b g
			0 begin c g
			b fails
			c fails
			3000 begin d x
			h closed 1
			g half-open 2 10
			3700 begin e x
			h none
			g none
		`},
		{name: "it is off", opts: breaker.Options{Failures: -1}, steps: `
			0 begin a
			0 begin b
			a fails
			b fails
			h none
			0 begin c
		`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := breaker.Options{Failures: 2, Open: 10 * time.Second}
			if tt.opts.Failures < 0 {
				opts.Failures = 0
			}
			s := &script{T: t, breakers: breakers(t, opts), calls: map[string]*breaker.Attempt{}}
			s.play(tt.steps)
		})
	}
}

func TestBreakerSaysWhy(t *testing.T) {
	t.Parallel()
	b := breakers(t, breaker.Options{Failures: 1, Open: 90 * time.Second})
	call, err := b.Begin(breaker.Target{Host: "a.test:443"}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	call.Fail(breaker.Failure{Reason: "answered 502 Bad Gateway"})
	_, err = b.Begin(breaker.Target{Host: "a.test:443"}, at(1))
	want := "not sent, because the circuit breaker of a.test:443 is open: consecutive failures: 1, " +
		"the last: answered 502 Bad Gateway; the host is tried again at 2026-01-01T00:01:30Z"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err = b.Begin(breaker.Target{Host: "a.test:443"}, at(200)); err != nil {
		t.Fatal(err)
	}
	_, err = b.Begin(breaker.Target{Host: "a.test:443"}, at(201))
	if err == nil || !strings.HasSuffix(err.Error(), "; the host is being tried again") {
		t.Errorf("error %v, want that it is being tried", err)
	}
}

func TestBreakerStates(t *testing.T) {
	t.Parallel()
	b := breakers(t, breaker.Options{Failures: 2, Open: time.Second})
	for _, host := range []string{"c", "a", "b", "a", "secret"} {
		call, err := b.Begin(breaker.Target{Host: host}, at(0))
		if err != nil {
			t.Fatal(err)
		}
		call.Fail(breaker.Failure{Reason: "EOF", Private: host == "secret"})
	}
	want := []breaker.HostState{
		{Host: "a", State: breaker.Open, Failures: 2, Until: at(1)},
		{Host: "b", State: breaker.Closed, Failures: 1},
		{Host: "c", State: breaker.Closed, Failures: 1},
	}
	if diff := cmp.Diff(want, b.States()); diff != "" {
		t.Error(diff)
	}
}

// Memory is bounded whatever hosts occur in data, and open breakers are kept.
func TestBreakerForgetsTheLeast(t *testing.T) {
	t.Parallel()
	b := breakers(t, breaker.Options{Failures: 2, Open: time.Hour})
	fail := func(host string, second int) {
		call, err := b.Begin(breaker.Target{Host: host}, at(second))
		if err != nil {
			t.Fatal(err)
		}
		call.Fail(breaker.Failure{Reason: "EOF"})
	}
	fail("open", 0)
	fail("open", 0)
	for i := range 10_010 {
		fail(fmt.Sprintf("host-%05d", i), 1+i/10_000)
	}
	states := b.States()
	if len(states) != 10_000 || states[0].Host != "host-00011" || states[len(states)-1].Host != "open" {
		t.Errorf("%d hosts from %s to %s, want 10000 from host-00011 to open", len(states), states[0].Host, states[len(states)-1].Host)
	}
}

func TestBreakerWithoutTimeOrBreakers(t *testing.T) {
	t.Parallel()
	b := breakers(t, breaker.Options{Failures: 1, Open: time.Hour})
	for _, b := range []*breaker.Set{nil, b} {
		for range 3 {
			call, err := b.Begin(breaker.Target{Host: "h"}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			call.Fail(breaker.Failure{Reason: "EOF"})
		}
		if states := b.States(); len(states) != 0 {
			t.Errorf("states %v, want none", states)
		}
	}
}

func TestBreakerOptions(t *testing.T) {
	t.Parallel()
	if _, err := breaker.New(breaker.Defaults()); err != nil {
		t.Error(err)
	}
	_, err := breaker.New(breaker.Options{Failures: -1})
	for _, part := range []string{"circuit breaker: ", "failures is -1", "open is 0s"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want it to say %q", err, part)
		}
	}
}

// One probe runs at a time, however many executors call.
func TestBreakerIsSharedByExecutors(t *testing.T) {
	t.Parallel()
	b := breakers(t, breaker.Options{Failures: 1, Open: time.Second})
	call, err := b.Begin(breaker.Target{Host: "h"}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	call.Fail(breaker.Failure{Reason: "EOF"})
	var mu sync.Mutex
	under, peak := 0, 0
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		under += n
		peak = max(peak, under)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				call, err := b.Begin(breaker.Target{Host: "h"}, at(1))
				if err != nil {
					b.States()
					continue
				}
				count(1)
				count(-1)
				call.Cancel()
			}
		})
	}
	wg.Wait()
	if peak != 1 {
		t.Errorf("%d probes ran at the same time, want 1", peak)
	}
}

func TestBreakersOfTenants(t *testing.T) {
	t.Parallel()
	b := breakers(t, breaker.Options{Failures: 1, Open: time.Minute})
	call, err := b.Begin(breaker.Target{Tenant: "a", Host: "h.test:443"}, at(0))
	if err != nil {
		t.Fatal(err)
	}
	call.Fail(breaker.Failure{Reason: "answered 503 Service Unavailable"})
	if _, err = b.Begin(breaker.Target{Tenant: "a", Host: "h.test:443"}, at(1)); err == nil {
		t.Error("tenant a may call a host that has failed")
	}
	if _, err = b.Begin(breaker.Target{Tenant: "b", Host: "h.test:443"}, at(1)); err != nil {
		t.Errorf("tenant b may not call a host that has failed for tenant a: %v", err)
	}
	if states := b.States(); len(states) != 1 || states[0].Tenant != "a" {
		t.Errorf("states are %+v, want that of tenant a", states)
	}
}

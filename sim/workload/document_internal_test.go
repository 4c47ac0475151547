package workload

import (
	"testing"

	"flunq.io/flunq/sim"
)

// Modelled documents end as the model predicts.
func TestModelledDocuments(t *testing.T) {
	t.Parallel()
	with, known := modelledChildren(), 0
	for n := range *documents * 3 {
		m, ok := modelOf(n, with)
		if !ok {
			continue
		}
		known++
		if wrong := m.wrong(tried(t, m.cfg, sim.Plan{})); len(wrong) > 0 {
			t.Errorf("document %d: %v\n%s", n, wrong, m.text)
		}
	}
	t.Logf("%d documents", known)
}

// Each companion of a search ends as expected, and depends only on its name and seed.
func TestCompanions(t *testing.T) {
	t.Parallel()
	const some = 160 // the number of companions in a search of 2,000 seeds
	for n := range some {
		name, seed, ok := Nth(n)
		if !ok {
			t.Fatalf("there are only %d companions", n)
		}
		c, err := New(name, seed)
		if err != nil {
			t.Error(err)
			continue
		}
		got := tried(t, c.Config, *c.Config.Plan)
		if c.Check(got); len(got.Broken) > 0 {
			t.Errorf("companion %d, %q with seed %d: %v, injected %+v", n, name, seed, got.Broken, got.Injected)
		}
	}
	if _, err := New("nobody", 1); err == nil {
		t.Error("there is a companion named nobody")
	}
}

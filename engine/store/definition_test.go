package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
)

var definitions = []check{
	{"the newest version is the latest, in whatever order they are defined", func(t *testing.T, w *environment) {
		ctx := t.Context()
		for _, version := range []string{"1.9.0", "2.0.0-rc.1", "1.10.0", "2.0.0-rc.1+build", "0.1.0"} {
			if _, err := registry.New(w.Store).Define(ctx, tenant, "ns.wf", version, "text of "+version); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ ask, want string }{
			{"", "text of 2.0.0-rc.1+build"},
			{"latest", "text of 2.0.0-rc.1+build"},
			{"1.9.0", "text of 1.9.0"},
		} {
			hash, text, err := registry.New(w.Store).Definition(ctx, tenant, "ns.wf", c.ask)
			if err != nil || text != c.want {
				t.Errorf("version %q: %q, %v, want %q", c.ask, text, err, c.want)
			}
			if again, err := registry.New(w.Store).DefinitionByHash(ctx, tenant, "ns.wf", hash); err != nil || again != text {
				t.Errorf("by its hash: %q, %v", again, err)
			}
		}
	}},
	{"an unknown definition is not found", func(t *testing.T, w *environment) {
		_, err := registry.New(w.Store).Define(t.Context(), tenant, "ns.wf", "1.0.0", "text")
		must(t, err)
		for _, c := range [][2]string{{"ns.other", ""}, {"ns.wf", "2.0.0"}} {
			if _, _, err := registry.New(w.Store).Definition(t.Context(), tenant, c[0], c[1]); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%v: %v, want ErrNotFound", c, err)
			}
		}
		if _, err := registry.New(w.Store).DefinitionByHash(t.Context(), tenant, "ns.wf", "beef"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
	}},
	{"of versions defined concurrently the newest is the latest", func(t *testing.T, w *environment) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if _, err := registry.New(w.Store).Define(t.Context(), tenant, "ns.wf", fmt.Sprintf("1.%d.0", i), fmt.Sprint("text ", i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, text, err := registry.New(w.Store).Definition(t.Context(), tenant, "ns.wf", ""); err != nil || text != "text 19" {
			t.Errorf("the latest is %q, %v, want text 19", text, err)
		}
	}},
}

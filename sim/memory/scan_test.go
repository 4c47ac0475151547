package memory_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
)

// Elements that exist during the whole scan are returned, whatever is added or removed
// between two calls.
func TestScanPageByPage(t *testing.T) {
	t.Parallel()
	s := memory.New(time.Unix(0, 0))
	s.Page = 3
	rdb := wire.Passive(s.Dial)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var want, got []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("m%02d", i))
		must(rdb.SAdd(t.Context(), "set", want[i], fmt.Sprint("gone", i)).Err())
	}
	pages := 0
	for cursor := uint64(0); cursor != 0 || pages == 0; pages++ {
		page, next, err := rdb.SScan(t.Context(), "set", cursor, "m*", 100).Result()
		must(err)
		got, cursor = append(got, page...), next
		must(rdb.SRem(t.Context(), "set", fmt.Sprint("gone", pages)).Err())
		must(rdb.SAdd(t.Context(), "set", fmt.Sprint("new", pages)).Err())
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || pages != 7 {
		t.Errorf("%d pages of %v, want 7 of %v", pages, got, want)
	}
}

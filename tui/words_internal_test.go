package tui

import (
	"testing"
	"time"
)

// A timer that was not late when it was read is not shown as late, however old the data is.
func TestDue(t *testing.T) {
	t.Parallel()
	for want, row := range map[string]Row{
		"":            {State: Waiting},
		"in 3s":       {State: Waiting, At: when.Add(2001 * time.Millisecond)},
		"in 365,242d": {State: Waiting, At: when.AddDate(1000, 0, 0)},
		"now":         {State: Waiting, At: when.Add(-time.Minute)},
		"1m00s late":  {State: Overdue, At: when.Add(-time.Minute)},
	} {
		if got := due(when, row); got != want {
			t.Errorf("%v: %q, want %q", row, got, want)
		}
	}
}

// A suggested file stays in the folder, whatever the id.
func TestFileFor(t *testing.T) {
	t.Parallel()
	if got, want := fileFor(Action{IDs: []string{"../../évil\x1b"}}), "vil-.jsonl"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// keyed follows the timers that have a key, by execution, task and key: of several
// requests for one key only the last counts.
type keyed map[string][]timerRequest

// timerRequest is a request to set a timer, or to cancel it.
type timerRequest struct {
	event.Timer

	at   time.Time // when its event was written
	back bool
}

// take records what a stream entry says about a timer. It reports a timer that fires
// although a later request replaced it more than slack ago.
func (k keyed) take(entry string, e event.Event, slack time.Duration, broken reportFunc) {
	if e.Type != event.TimerScheduled && e.Type != event.TimerCancelled && e.Type != event.TimerFired || !bytes.Contains(e.Data, []byte(`"key"`)) {
		return
	}
	var t event.Timer
	if decide.DecodeData(e, &t) != nil || !t.Keyed() {
		return
	}
	id := fmt.Sprintf("%s %s %s", e.Execution, t.TaskID, t.Key)
	text, _, _ := strings.Cut(entry, "-")
	ms, _ := strconv.ParseInt(text, 10, 64) // written by Redis
	at := time.UnixMilli(ms).UTC()
	if e.Type != event.TimerFired {
		k[id] = append(k[id], timerRequest{t, at, e.Type == event.TimerCancelled})
		return
	}
	said := k[id]
	for len(said) > 0 && !said[len(said)-1].FireAt.Equal(t.FireAt) {
		last := said[len(said)-1]
		if at.Sub(last.at) > slack {
			broken("of timers with one key the last counts", e.Execution, "that of %s for %v fired, and there was a later word at %v", t.Key, t.FireAt, last.at)
			return
		}
		said = said[:len(said)-1]
	}
	k[id] = nil
}

// left reports timers that have never fired although their execution was still running
// when they were due.
func (k keyed) left(over map[string]time.Time, broken reportFunc) {
	for _, id := range sortedKeys(k) {
		n := len(k[id])
		if n == 0 || k[id][n-1].back {
			continue
		}
		last := k[id][n-1]
		if end := over[last.Execution]; !end.IsZero() && end.After(later(last.at, last.Due())) {
			broken("a timer with a key is not lost", last.Execution, "that of %s for %v has not fired", last.Key, last.FireAt)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

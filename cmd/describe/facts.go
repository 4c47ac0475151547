package describe

import (
	"fmt"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// Facts omits facts without a value.
func Facts(all ...[2]string) (out [][2]string) {
	for _, f := range all {
		if f[1] != "" {
			out = append(out, f)
		}
	}
	return out
}

// Instant formats a time in UTC. The zero time is empty.
func Instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Data returns a value under a name, nothing if it is empty.
func Data[T ~[]byte](name string, value T) []tui.Data {
	if len(value) == 0 {
		return nil
	}
	return []tui.Data{{Name: name, Text: string(value)}}
}

// Problem formats a problem and the task of the document that caused it.
func Problem(p *event.Problem, doc *tui.Document) string {
	if p == nil {
		return ""
	}
	if doc != nil {
		for _, t := range doc.Tasks {
			if t.Ref == p.Instance {
				return fmt.Sprintf("%s (%s, line %d)", p.Error(), t.Name, t.Line)
			}
		}
	}
	return p.Error()
}

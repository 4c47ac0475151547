package event_test

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/event"
)

// A label filter selects by value, or by name alone.
func TestLabels(t *testing.T) {
	t.Parallel()
	labels, err := event.ParseLabels([]string{"team=payments", "empty=", "a=b=c"})
	if err != nil || labels["a"] != "b=c" {
		t.Fatalf("labels %v, %v", labels, err)
	}
	for filter, want := range map[string]bool{"team": true, "team=payments": true, "team=other": false, "empty": true, "none": false, "a=b=c": true} {
		wanted, err := event.ParseLabelFilter([]string{filter})
		if err != nil || labels.Has(wanted) != want {
			t.Errorf("%s: %v, want %v (%v)", filter, !want, want, err)
		}
	}
	for _, wrong := range [][]string{{"team"}, {"=a"}, {"a b=c"}, {"a=1", "a=2"}, {"a=\n"}, {"a=\xff"}, {"a=" + strings.Repeat("x", 201)}, {strings.Repeat("x", 64) + "=1"}} {
		if _, err := event.ParseLabels(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
	data := event.Encode(event.Started{Name: "a", Input: []byte(`{"labels":{"x":1}}`), Labels: labels})
	if got := string(event.LabelsOf(data)); got != `{"a":"b=c","empty":"","team":"payments"}` {
		t.Errorf("the labels of an event are %s", got)
	}
	if got := event.LabelsOf(event.Encode(event.Started{Input: []byte(`{"labels":{"x":1}}`)})); got != nil {
		t.Errorf("an input is taken for labels: %s", got)
	}
}

package event_test

import (
	"testing"

	"flunq.io/flunq/engine/event"
)

// Other engines have base URIs of their own for the standard errors. An error with such a URI whose
// name is not a standard one is the document's own.
func TestShortType(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"communication": event.Communication,
		"https://serverlessworkflow.io/spec/1.0.0/errors/communication":           event.Communication,
		"https://open-workflow-specification.org/dsl/errors/types/timeout":        event.Timeout,
		"https://serverlessworkflow.io/errors/communication":                      event.Communication,
		"https://open-workflow-specification.org/1.0.0/errors/validation":         event.Validation,
		"https://serverlessworkflow.io/errors/not-implemented":                    "https://serverlessworkflow.io/errors/not-implemented",
		"https://open-workflow-specification.org/1.0.0/errors/validation/address": "https://open-workflow-specification.org/1.0.0/errors/validation/address",
		"https://shop.example/errors/timeout":                                     "https://shop.example/errors/timeout",
	} {
		if got := event.ShortType(uri); got != want {
			t.Errorf("ShortType(%q) = %q, want %q", uri, got, want)
		}
	}
}

package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Labels are names with values that an execution gets when it starts and can be found by.
type Labels map[string]string

// Limits of labels.
const (
	maxLabels     = 20
	maxLabelName  = 63
	maxLabelValue = 200
)

// Check returns an error if there are too many labels, or a label has a form that is not allowed.
func (l Labels) Check() error {
	if len(l) > maxLabels {
		return fmt.Errorf("an execution can have at most %d labels, got %d", maxLabels, len(l))
	}
	for name, value := range l {
		if err := checkLabelName(name); err != nil {
			return err
		}
		if len(value) > maxLabelValue || !Plain(value) {
			return fmt.Errorf("label %s: want a value of at most %d bytes of UTF-8 without control characters", name, maxLabelValue)
		}
	}
	return nil
}

// Plain reports whether a text is UTF-8 without control characters.
func Plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func checkLabelName(name string) error {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/", r)
	}
	if name == "" || len(name) > maxLabelName || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return fmt.Errorf("label %q: want a name of 1 to %d letters, digits and ._-/", name, maxLabelName)
	}
	return nil
}

// ParseLabels parses labels of the form "name=value".
func ParseLabels(texts []string) (Labels, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	out := Labels{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%q: want name=value", text)
		}
		if other, twice := out[name]; twice && other != value {
			return nil, fmt.Errorf("label %s is given twice: %s and %s", name, other, value)
		}
		out[name] = value
	}
	return out, out.Check()
}

// Has reports whether the labels include all of others. The value "" in others matches any value.
func (l Labels) Has(others Labels) bool {
	for name, want := range others {
		if value, ok := l[name]; !ok || want != "" && value != want {
			return false
		}
	}
	return true
}

// ParseLabelFilter parses labels for Has: "name=value", or "name" for any value.
func ParseLabelFilter(texts []string) (Labels, error) {
	out := Labels{}
	for _, text := range texts {
		name, value, valued := strings.Cut(text, "=")
		if err := checkLabelName(name); err != nil {
			return nil, err
		}
		if valued && value == "" {
			return nil, errors.New("label " + name + ": want " + name + "=value, or " + name + " for any value")
		}
		if other, twice := out[name]; twice && other != value {
			return nil, fmt.Errorf("label %s is given twice: no execution has two values of it", name)
		}
		out[name] = value
	}
	return out, nil
}

// LabelsOf returns the labels in the data of an ExecutionStarted as JSON, or nil if there are none.
func LabelsOf(started []byte) []byte {
	var data struct {
		Labels json.RawMessage `json:"labels"`
	}
	if !bytes.Contains(started, []byte(`"labels":`)) || json.Unmarshal(started, &data) != nil {
		return nil
	}
	return data.Labels
}

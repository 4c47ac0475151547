package cmd

import (
	"errors"

	"flunq.io/flunq/engine/dsl"
)

// note is a mistake or a warning in the JSON output.
type note struct {
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"`
}

// mistakeNotes returns the mistakes in an error of Parse.
func mistakeNotes(err error) []note {
	notes := []note{}
	if err == nil {
		return notes
	}
	found, ok := errors.AsType[*dsl.Mistakes](err)
	if !ok {
		return append(notes, note{Line: 1, Column: 1, Message: err.Error()})
	}
	for _, m := range found.List {
		notes = append(notes, note{m.Line, m.Column, m.Message, m.Suggestion})
	}
	return notes
}

func warningNotes(warnings []dsl.Warning) []note {
	notes := []note{}
	for _, w := range warnings {
		notes = append(notes, note{w.Line, w.Column, w.Message, w.Suggestion})
	}
	return notes
}

// explainMistakes prints the mistakes in a document and their positions.
func explainMistakes(sh *shell, err error) {
	if found, ok := errors.AsType[*dsl.Mistakes](err); ok {
		found.Render(sh.Err, sh.errColor())
		return
	}
	sh.report(err)
}

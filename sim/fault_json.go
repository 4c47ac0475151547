package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// writtenFault is the JSON form of a Fault.
type writtenFault struct {
	Kind    FaultKind `json:"kind"`
	Service string    `json:"service"`
	Command uint64    `json:"command"`
	Amount  string    `json:"amount,omitempty"`
}

// MarshalJSON writes the duration in Go's notation.
func (f Fault) MarshalJSON() ([]byte, error) {
	w := writtenFault{Kind: f.Kind, Service: f.Service, Command: f.Command}
	if f.Amount > 0 {
		w.Amount = f.Amount.String()
	}
	return json.Marshal(w) //nolint:wrapcheck // strings and a number
}

// UnmarshalJSON reads what MarshalJSON writes, and rejects unknown members.
func (f *Fault) UnmarshalJSON(text []byte) error {
	var w writtenFault
	if err := ReadStrictly(text, &w); err != nil {
		return fmt.Errorf("a fault: %w", err)
	}
	if !slices.Contains(Faults(), w.Kind) {
		return fmt.Errorf("a fault of kind %q: want one of %v", w.Kind, Faults())
	}
	*f = Fault{Kind: w.Kind, Service: w.Service, Command: w.Command}
	if w.Amount == "" {
		return nil
	}
	var err error
	if f.Amount, err = time.ParseDuration(w.Amount); err != nil || f.Amount < 0 {
		return fmt.Errorf("a fault's amount %q: want one such as 45s", w.Amount)
	}
	return nil
}

// writtenAct is the JSON form of an Act.
type writtenAct struct {
	What      ActKind `json:"what"`
	Execution string  `json:"execution"`
	After     string  `json:"after"`
}

// MarshalJSON writes the duration in Go's notation.
func (a Act) MarshalJSON() ([]byte, error) {
	return json.Marshal(writtenAct{a.What, a.Execution, a.After.String()}) //nolint:wrapcheck // strings
}

// UnmarshalJSON reads what MarshalJSON writes, and rejects unknown members.
func (a *Act) UnmarshalJSON(text []byte) error {
	var w writtenAct
	if err := ReadStrictly(text, &w); err != nil {
		return fmt.Errorf("what an operator does: %w", err)
	}
	after, err := time.ParseDuration(w.After)
	if err != nil || after < 0 || !slices.Contains(ActKinds(), w.What) {
		return fmt.Errorf("what an operator does: %q after %q, want one of %q after a time such as 45s", w.What, w.After, ActKinds())
	}
	*a = Act{w.What, w.Execution, after}
	return nil
}

// ReadStrictly decodes JSON and rejects unknown members and trailing data.
func ReadStrictly(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err //nolint:wrapcheck // the caller says what was read
	}
	if dec.More() {
		return errors.New("there is more than one value")
	}
	return nil
}

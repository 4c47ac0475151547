package event

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// DecodeStrictly decodes JSON that a user has written. It rejects unknown members and anything that
// follows the value. Its errors are readable ones, see Readable.
func DecodeStrictly(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return Readable(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// Readable returns an error of encoding/json in the words of JSON, without names of Go types. Other
// errors are returned unchanged.
func Readable(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is %s, want %s", cmp.Or(wrong.Field, "it"), wrong.Value, kindName(wrong.Type.Kind()))
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON: %w", err)
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf("%q is not a time, want one such as 2026-02-01T09:00:00Z", wrong.Value)
	}
	if err != nil && strings.HasPrefix(err.Error(), "json: unknown field ") {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return err
}

// kindName returns the word of JSON for values of a kind.
func kindName(kind reflect.Kind) string {
	switch kind {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.String, reflect.Bool:
		return kind.String()
	case reflect.Float32, reflect.Float64:
		return "number"
	default:
		return "integer"
	}
}

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
		return fmt.Errorf("%s is %s, want %s", cmp.Or(wrong.Field, "it"), wrong.Value, typeName(wrong.Type))
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		if strings.HasSuffix(wrong.Error(), "exceeded max depth") {
			return errors.New("JSON nested deeper than 10,000 levels")
		}
		return fmt.Errorf("not JSON: %w", err)
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return fmt.Errorf("%q is not a time, want one such as 2026-02-01T09:00:00Z", wrong.Value)
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not JSON: it ends too early")
	case err != nil && strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: "):
		return errors.New("want a time such as 2026-02-01T09:00:00Z")
	case err != nil && strings.HasPrefix(err.Error(), "json: unknown field "):
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return err
}

// typeName returns JSON's word for the values of a type.
func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 { // in base64
			return "string"
		}
		return "array"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	default:
		return "integer"
	}
}

package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	maxViolations = 20
	maxMessage    = 300 // bytes
)

// Violation is one thing that is wrong with data.
type Violation struct {
	Path    string // a JSON pointer, "" for the whole
	Message string
}

func (v Violation) String() string {
	path := v.Path
	if path == "" {
		path = "/"
	}
	return "at " + path + ": " + v.Message
}

// Invalid says what is wrong with data, sorted by place.
type Invalid struct {
	Violations []Violation // the first of them, if there are very many
	More       int         // how many others there are
}

func (e *Invalid) Error() string {
	lines := make([]string, 0, len(e.Violations)+1)
	for _, v := range e.Violations {
		lines = append(lines, v.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

func newInvalid(err *jsonschema.ValidationError) *Invalid {
	found := slices.SortedFunc(violations(err), func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	found = slices.Compact(found)
	more := max(0, len(found)-maxViolations)
	return &Invalid{Violations: found[:len(found)-more], More: more}
}

// violations yields the reasons at the bottom of an error, and alternatives that all failed.
func violations(err *jsonschema.ValidationError) func(yield func(Violation) bool) {
	return func(yield func(Violation) bool) { walk(err, yield) }
}

func walk(err *jsonschema.ValidationError, yield func(Violation) bool) bool {
	path := pointer(err.InstanceLocation)
	for _, message := range messages(err) {
		if !yield(Violation{Path: path, Message: shortened(message)}) {
			return false
		}
	}
	for _, cause := range err.Causes {
		if !walk(cause, yield) {
			return false
		}
	}
	return true
}

// messages are what an error itself says, beside its causes.
func messages(err *jsonschema.ValidationError) []string {
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		return each(k.Missing, "lacks the property %q")
	case *kind.AdditionalProperties:
		return each(k.Properties, "has the unknown property %q")
	case *kind.FalseSchema:
		return []string{"nothing is allowed here"}
	case *kind.AnyOf:
		return []string{"fits none of the alternatives"}
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return []string{fmt.Sprintf("fits the alternatives %d and %d, want exactly one",
				k.Subschemas[0]+1, k.Subschemas[1]+1)}
		}
		return []string{"fits none of the alternatives"}
	case *kind.Not:
		return []string{"is what the schema excludes"}
	case *kind.PropertyNames:
		return []string{fmt.Sprintf("has the property %q, whose name does not fit", k.Property)}
	default:
		return inherent(err)
	}
}

// inherent is the library's own message, for an error without causes.
func inherent(err *jsonschema.ValidationError) []string {
	if len(err.Causes) > 0 {
		return nil
	}
	alone := jsonschema.ValidationError{SchemaURL: err.SchemaURL, ErrorKind: err.ErrorKind}
	return []string{strings.TrimPrefix(alone.Error(), "at '': ")}
}

func each(names []string, format string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fmt.Sprintf(format, name)
	}
	return out
}

func pointer(keys []string) string {
	var out strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1", "\n", `\n`, "\r", `\r`)
	for _, key := range keys {
		out.WriteByte('/')
		escape.WriteString(&out, key) //nolint:errcheck // a Builder takes everything
	}
	return out.String()
}

// shortened is one line of bounded length.
func shortened(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxMessage {
		return message
	}
	// What is wrong is told at the end, after the value.
	const tail = maxMessage / 2
	return strings.ToValidUTF8(message[:tail], "") + "…" + strings.ToValidUTF8(message[len(message)-tail:], "")
}

package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	maxViolations = 20
	maxReported   = 1000 // violations to collect; beyond that, equal ones are counted separately
	maxMessage    = 300  // bytes
)

// Violation is one part of the data that violates the schema.
type Violation struct {
	Path    string // a JSON pointer, "" for the whole
	Message string
}

// String returns a sentence about the value, which it names by its jq path: .items[2].qty is -1, want
// minimum 0.
func (v Violation) String() string { return jqPath(v.Path) + " " + v.Message }

var plainName = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// jqPath converts a JSON pointer to a jq path; "it" for the whole value.
func jqPath(path string) string {
	if path == "" {
		return "it"
	}
	var out strings.Builder
	for segment := range strings.SplitSeq(path[1:], "/") {
		segment = strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
		switch _, err := strconv.ParseUint(segment, 10, 32); {
		case err == nil:
			fmt.Fprintf(&out, "[%s]", segment)
		case plainName.MatchString(segment):
			out.WriteString("." + segment)
		default:
			out.WriteString("." + strconv.Quote(segment))
		}
	}
	if out.String()[0] == '[' {
		return "." + out.String()
	}
	return out.String()
}

// pathOf parses the jq path at the start of a sentence, and returns the rest. ok is false if a quoted name
// in it is invalid.
func pathOf(sentence string) (path []string, rest string, ok bool) {
	rest = strings.TrimPrefix(sentence, "it ")
	if strings.HasPrefix(rest, ".[") {
		rest = rest[1:]
	}
	for {
		m := nextName.FindStringSubmatch(rest)
		if m == nil {
			return path, strings.TrimPrefix(rest, " "), true
		}
		name := m[1] + m[3]
		if m[2] != "" {
			unquoted, err := strconv.Unquote(m[2])
			if err != nil {
				return nil, "", false
			}
			name = unquoted
		}
		path = append(path, name)
		rest = rest[len(m[0]):]
	}
}

var nextName = regexp.MustCompile(`^(?:\.([A-Za-z_]\w*)|\.("(?:[^"\\]|\\.)*")|\[(\d+)\])`)

// Keyword returns the path of the data that a violation's sentence is about, and the JSON Schema keyword
// that was violated; "" if the sentence names none. ok is false if the path cannot be parsed.
func Keyword(sentence string) (path []string, keyword string, ok bool) {
	path, rest, ok := pathOf(sentence)
	if !ok {
		return nil, "", false
	}
	if _, want, found := strings.Cut(rest, ", want "); found {
		word, _, _ := strings.Cut(want, " ")
		if slices.Contains(Keywords(), word) {
			return path, word, true
		}
		return path, "", true
	}
	for begin, keyword := range map[string]string{
		"lacks the property": "required", "has the unknown property": "additionalProperties", "has the property": "propertyNames",
		"fits none": "", "fits the alternatives": "oneOf", "is what the schema excludes": "not",
	} {
		if strings.HasPrefix(rest, begin) {
			return path, keyword, true
		}
	}
	return path, "", true
}

// Invalid is the error for invalid data, with its violations sorted by path.
type Invalid struct {
	Violations []Violation // only the first ones, if there are very many
	More       int         // number of other violations
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
	places := places(err, nil)
	total := len(places)
	if total > maxReported {
		slices.SortStableFunc(places, func(a, b place) int { return strings.Compare(a.path, b.path) })
		places = places[:maxReported]
	}
	var found []Violation
	for _, p := range places {
		for _, message := range messages(p.err) {
			found = append(found, Violation{Path: p.path, Message: shortened(message)})
		}
	}
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	found = slices.Compact(found)
	more := max(0, len(found)-maxViolations)
	if found = found[:len(found)-more]; total > maxReported {
		more = total - len(found)
	}
	return &Invalid{Violations: found, More: more}
}

// place is an error that has messages of its own, not only causes.
type place struct {
	path string
	err  *jsonschema.ValidationError
}

// places returns the innermost causes of an error, and alternatives that all failed.
func places(err *jsonschema.ValidationError, to []place) []place {
	if hasMessages(err) {
		to = append(to, place{pointer(err.InstanceLocation), err})
	}
	for _, cause := range err.Causes {
		to = places(cause, to)
	}
	return to
}

// hasMessages reports whether an error has messages of its own.
func hasMessages(err *jsonschema.ValidationError) bool {
	switch err.ErrorKind.(type) {
	case *kind.Required, *kind.AdditionalProperties, *kind.FalseSchema, *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.PropertyNames:
		return true
	default:
		return len(err.Causes) == 0
	}
}

// messages returns an error's own messages, without those of its causes; it must have some.
func messages(err *jsonschema.ValidationError) []string {
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		return each(k.Missing, "lacks the property %q")
	case *kind.AdditionalProperties:
		return each(k.Properties, "has the unknown property %q")
	case *kind.FalseSchema:
		return []string{"is not allowed here"}
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
		return simple(err)
	}
}

// simple returns the messages of an error without causes: the value, and the keyword that
// it violates.
func simple(err *jsonschema.ValidationError) []string {
	say := func(format string, args ...any) []string { return []string{fmt.Sprintf(format, args...)} }
	count := func(n int, noun string) string {
		if n == 1 {
			return "1 " + noun
		}
		return fmt.Sprintf("%d %ss", n, noun)
	}
	switch k := err.ErrorKind.(type) {
	case *kind.Type:
		return say("is %s, want type %s", article(k.Got), strings.Join(k.Want, " or "))
	case *kind.Minimum:
		return say("is %s, want minimum %s", decimal(k.Got), decimal(k.Want))
	case *kind.Maximum:
		return say("is %s, want maximum %s", decimal(k.Got), decimal(k.Want))
	case *kind.ExclusiveMinimum:
		return say("is %s, want exclusiveMinimum %s", decimal(k.Got), decimal(k.Want))
	case *kind.ExclusiveMaximum:
		return say("is %s, want exclusiveMaximum %s", decimal(k.Got), decimal(k.Want))
	case *kind.MultipleOf:
		return say("is %s, want multipleOf %s", decimal(k.Got), decimal(k.Want))
	case *kind.MinLength:
		return say("has %s, want minLength %d", count(k.Got, "character"), k.Want)
	case *kind.MaxLength:
		return say("has %s, want maxLength %d", count(k.Got, "character"), k.Want)
	case *kind.MinItems:
		return say("has %s, want minItems %d", count(k.Got, "item"), k.Want)
	case *kind.MaxItems:
		return say("has %s, want maxItems %d", count(k.Got, "item"), k.Want)
	case *kind.MinProperties:
		return say("has %s, want minProperties %d", propertyCount(k.Got), k.Want)
	case *kind.MaxProperties:
		return say("has %s, want maxProperties %d", propertyCount(k.Got), k.Want)
	case *kind.Pattern:
		return say("is %q, want pattern %s", k.Got, k.Want)
	case *kind.Format:
		got := shown(k.Got)
		if len(got) > maxMessage/2 {
			got = "a long string"
		}
		return say("is %s, want format %s: %s", got, k.Want, strings.TrimPrefix(fmt.Sprint(k.Err), "regular expression: error parsing regexp: "))
	case *kind.Enum:
		wanted := make([]string, len(k.Want))
		for i, v := range k.Want {
			wanted[i] = shown(v)
		}
		return say("is %s, want enum %s", shown(k.Got), strings.Join(wanted, ", "))
	case *kind.Const:
		return say("is %s, want const %s", shown(k.Got), shown(k.Want))
	case *kind.UniqueItems:
		return say("has equal items at %d and %d, want uniqueItems", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return say("has no fitting item, want contains")
	default:
		return inherent(err)
	}
}

func propertyCount(n int) string {
	if n == 1 {
		return "1 property"
	}
	return fmt.Sprintf("%d properties", n)
}

// article returns the name of a type with its article.
func article(typ string) string {
	switch typ {
	case "null":
		return typ
	case "array", "object", "integer":
		return "an " + typ
	default:
		return "a " + typ
	}
}

// shown returns the JSON of a string, number or boolean, or else the name of the type.
func shown(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// decimal formats a number as a decimal.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// inherent returns the original message of package jsonschema for an error without causes.
func inherent(err *jsonschema.ValidationError) []string {
	single := jsonschema.ValidationError{SchemaURL: err.SchemaURL, ErrorKind: err.ErrorKind}
	return []string{strings.TrimPrefix(single.Error(), "at '': ")}
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
	for _, key := range keys {
		out.WriteByte('/')
		out.WriteString(escaped(key))
	}
	return strings.ReplaceAll(strings.ReplaceAll(out.String(), "\n", `\n`), "\r", `\r`)
}

// escaped returns a key as a segment of a JSON pointer.
func escaped(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// shortened returns a message as one line of bounded length.
func shortened(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxMessage {
		return message
	}
	// The end describes the violation; the value before it may be long.
	const tail = maxMessage / 2
	return strings.ToValidUTF8(message[:tail], "") + "…" + strings.ToValidUTF8(message[len(message)-tail:], "")
}

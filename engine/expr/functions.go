package expr

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/spelling"
)

// builtins maps the name of each function, of gojq or of the prelude, to its possible numbers of
// arguments.
//
//nolint:gochecknoglobals // computed once, then read-only
var builtins = sync.OnceValue(func() map[string][]int {
	signs := maps.Clone(prelude())
	query, err := gojq.Parse("builtins[]")
	if err != nil {
		panic(err)
	}
	for iter := query.Run(nil); ; {
		v, ok := iter.Next()
		if !ok {
			break
		}
		sign, _ := v.(string)
		signs[sign] = ""
	}
	out := map[string][]int{}
	for _, sign := range slices.Sorted(maps.Keys(signs)) {
		name, count, _ := strings.Cut(sign, "/")
		if n, err := strconv.Atoi(count); err == nil && refused(name) == "" {
			out[name] = append(out[name], n)
		}
	}
	return out
})

// Functions returns the names of jq's functions with their possible numbers of arguments. The
// caller must not modify the map.
func Functions() map[string][]int { return builtins() }

func arities(name string) []int { return builtins()[name] }

// exists reports whether jq has a function with args arguments. It compiles a call if the list of
// builtins omits the function.
func exists(name string, args int) bool {
	if slices.Contains(arities(name), args) {
		return true
	}
	call := name
	if args > 0 {
		call += "(." + strings.Repeat("; .", args-1) + ")"
	}
	query, err := gojq.Parse(call)
	if err != nil {
		return true // not a function name
	}
	_, err = gojq.Compile(query)
	return err == nil || !strings.Contains(err.Error(), "function not defined")
}

// otherName returns jq's name of another language's function, or "".
func otherName(name string) string {
	switch strings.ToLower(strings.ReplaceAll(name, "_", "")) {
	case "upcase", "upper", "uppercase", "toupper", "touppercase", "ucase", "asciiupper":
		return "ascii_upcase"
	case "downcase", "lower", "lowercase", "tolower", "tolowercase", "lcase", "asciilower":
		return "ascii_downcase"
	case "len", "size", "count", "strlen":
		return "length"
	case "str", "string", "tostr", "text":
		return "tostring"
	case "int", "toint", "parseint", "float", "tofloat", "parsefloat", "num", "number":
		return "tonumber"
	case "bool", "boolean", "tobool":
		return "toboolean"
	case "sum", "concat":
		return "add"
	case "strip":
		return "trim"
	case "includes":
		return "contains"
	case "filter", "where":
		return "select"
	case "hasprefix", "startwith", "beginswith":
		return "startswith"
	case "hassuffix", "endwith":
		return "endswith"
	case "matches", "regex":
		return "test"
	case "replace", "replaceall":
		return "gsub"
	case "indexof":
		return "index"
	case "sortby", "orderby":
		return "sort_by"
	case "groupby":
		return "group_by"
	case "uniq", "distinct":
		return "unique"
	case "typeof":
		return "type"
	case "entries":
		return "to_entries"
	case "haskey", "exists":
		return "has"
	case "parsejson", "jsonparse":
		return "fromjson"
	case "jsonstringify", "stringify":
		return "tojson"
	case "date", "today":
		return "now"
	case "ceiling":
		return "ceil"
	case "rounded":
		return "round"
	case "delete", "remove":
		return "del"
	case "each", "foreach":
		return "map"
	default:
		return ""
	}
}

// unknownFunction reports a function that does not exist, with a suggestion.
func (r *resolver) unknownFunction(f *gojq.Func) error {
	src := r.program.src
	at := callAt(src, f.Name, len(f.Args))
	e := &SyntaxError{Offset: at, Message: "jq has no function " + f.Name}
	if known := arities(f.Name); len(known) > 0 {
		e.Message = fmt.Sprintf("%s takes %s, not %d", f.Name, countOf(known), len(f.Args))
		if slices.Contains(known, 0) && len(f.Args) == 1 {
			e.Suggestion = fmt.Sprintf("write: %s | %s", f.Args[0], f.Name)
		} else if len(f.Args) == 1 && strings.Contains(f.Args[0].String(), ",") {
			e.Suggestion = "separate arguments with ; "
		}
		return e
	}
	e.Suggestion = r.meant(f, at)
	return e
}

// meant returns the function that was probably meant.
func (r *resolver) meant(f *gojq.Func, at int) string {
	src, name := r.program.src, f.Name
	if at > 1 && src[at-1] == '-' && (letterAt(src, at-2) || digitAt(src, at-2)) {
		start := at - 1
		for start > 0 && (letterAt(src, start-1) || digitAt(src, start-1) || src[start-1] == '-') {
			start--
		}
		if start > 0 && src[start-1] == '.' {
			return fmt.Sprintf(`for a member with a - in its name, write: ."%s"`, src[start:at]+name)
		}
	}
	switch name {
	case "None", "nil", "undefined", "NULL", "Null":
		return "write null"
	case "True", "TRUE", "yes":
		return "write true"
	case "False", "FALSE", "no":
		return "write false"
	case "return":
		return "leave it out: an expression is its value"
	case "substring", "substr", "slice":
		return "write: .[0:5]"
	case "find":
		return "write: first(.[] | select(…))"
	case "avg", "average", "mean":
		return "write: add / length"
	case "push", "append":
		return "write: . + [value]"
	case "uuid", "random", "rand":
		return "an expression always gives the same result: take the value from the input or from a call"
	}
	if other := otherName(name); other != "" {
		return fmt.Sprintf("did you mean %q?", other)
	}
	if r.known(name) {
		return fmt.Sprintf("did you mean %q?", "$"+name)
	}
	names := slices.Sorted(maps.Keys(builtins()))
	if guess := spelling.Word(name, names); guess != "" && (len(f.Args) > 0 || spelling.Limit(name) < 2 || len(name) > 4) {
		return fmt.Sprintf("did you mean %q?", guess)
	}
	if len(f.Args) == 0 {
		return fmt.Sprintf("for the member, write .%s; for the text, write %q", name, name)
	}
	return ""
}

func countOf(counts []int) string {
	words := make([]string, len(counts))
	for i, n := range counts {
		words[i] = strconv.Itoa(n)
	}
	all := strings.Join(words, " or ")
	switch all {
	case "0":
		return "no arguments"
	case "1":
		return "1 argument"
	default:
		return all + " arguments"
	}
}

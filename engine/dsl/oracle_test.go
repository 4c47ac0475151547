package dsl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/yaml"
)

// For any mutation, Parse rejects what the official schema rejects, and accepts what it
// accepts, with the exceptions below.
func TestParseAgreesWithTheOfficialSchema(t *testing.T) {
	t.Parallel()
	old, latest := oracle(t, "workflow-v1.0.3.yaml"), oracle(t, "workflow-main-2026-07-29.yaml")
	var checked, refused int
	for _, file := range examples(t, false) {
		var doc any
		if err := yaml3.Unmarshal(load(t, file), &doc); err != nil {
			t.Fatal(err)
		}
		mutate(plain(doc), "", func(what string, mutant any) {
			if !sampled(filepath.Base(file)+what, 10) {
				return
			}
			src, err := json.Marshal(mutant)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = dsl.Parse(filepath.Base(file), src)
			valid := latest.Validate(mutant) == nil || old.Validate(mutant) == nil
			checked++
			switch {
			case !valid && err == nil && !ruledIn(what):
				t.Errorf("%s: %s: the schema rejects it, Parse accepts it", file, what)
			case valid && err != nil && !ruledOut(err):
				t.Errorf("%s: %s: the schema accepts it, Parse rejects it: %v", file, what, err)
			}
			if !valid {
				refused++
			}
		})
	}
	t.Logf("%d mutants, %d invalid", checked, refused)
	if refused < 500 {
		t.Errorf("only %d mutants are invalid, want at least 500: fewer do not test much", refused)
	}
}

// ruledIn reports whether a mutation gives a document that the schema rejects and Parse deliberately
// accepts.
func ruledIn(what string) bool {
	for _, accepted := range []string{
		`/(headers|query)/[^/]+ = 5$`,    // scalars become text
		`/(headers|query)/[^/]+ = true$`, // likewise
		`/script/arguments = map\[\]$`,   // a map is named variables
	} {
		if regexp.MustCompile(accepted).MatchString(what) {
			return true
		}
	}
	return false
}

// ruledOut reports whether all mistakes are of kinds that the schema accepts, because it
// cannot express them or because Parse deliberately rejects them.
func ruledOut(err error) bool {
	var mistakes *yaml.Mistakes
	if !errors.As(err, &mistakes) {
		return false
	}
	for _, m := range mistakes.List {
		known := slices.ContainsFunc([]string{
			"unknown retry policy", "unknown error", "unknown timeout", "unknown authentication", "unknown call", "unknown catalog",
			"then: no task", "in another list", "has no value here", "there is no variable", "the expression ", "second case without when",
			"schema: ", "is not one of js", "in the workflow", "cannot be the name of a variable", "emit.event has no with",
			"has no authority", "has no grant", "in authentication", "JSON schema", "five fields of a cron", "JSON pointer",
		}, func(part string) bool { return strings.Contains(m.Message, part) })
		if !known {
			return false
		}
	}
	return true
}

func sampled(what string, oneOf uint32) bool {
	h := fnv.New32a()
	h.Write([]byte(what))
	return h.Sum32()%oneOf == 0
}

// mutate calls use with every document that differs from doc in one place.
func mutate(doc any, path string, use func(what string, mutant any)) {
	switch doc := doc.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(doc)) {
			less := maps.Clone(doc)
			delete(less, key)
			use(path+"/"+key+" deleted", less)
			mutate(doc[key], path+"/"+key, func(what string, mutant any) {
				changed := maps.Clone(doc)
				changed[key] = mutant
				use(what, changed)
			})
		}
		more := maps.Clone(doc)
		more["zzzUnheardOf"] = "x"
		use(path+"/zzzUnheardOf added", more)
	case []any:
		for i := range doc {
			mutate(doc[i], fmt.Sprintf("%s/%d", path, i), func(what string, mutant any) {
				changed := slices.Clone(doc)
				changed[i] = mutant
				use(what, changed)
			})
		}
	}
	for _, other := range []any{5, true, "", "text", []any{}, map[string]any{}, nil} {
		use(fmt.Sprintf("%s = %v", path, other), other)
	}
}

// plain converts YAML data to JSON's types.
func plain(v any) any {
	src, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out, err := jsonschema.UnmarshalJSON(strings.NewReader(string(src)))
	if err != nil {
		panic(err)
	}
	return out
}

func oracle(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	var doc any
	if err := yaml3.Unmarshal(load(t, filepath.Join(spec(t), "schema", name)), &doc); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(lookaround)
	if err := c.AddResource(name, plain(doc)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lookaround compiles Go's regular expressions with the three lookaheads of the schema.
func lookaround(pattern string) (jsonschema.Regexp, error) {
	p := looking{text: pattern}
	p.text, p.notExpression = without(p.text, `(?!\s*\$\{)(?=\S)`)
	p.text, p.notEmpty = without(p.text, `(?!$)`)
	p.text, _ = without(p.text, `(?=\d)`)
	var err error
	p.re, err = regexp.Compile(strings.TrimSpace(p.text))
	return p, err
}

func without(s, part string) (string, bool) {
	return strings.Replace(s, part, "", 1), strings.Contains(s, part)
}

type looking struct {
	text                    string
	re                      *regexp.Regexp
	notExpression, notEmpty bool
}

func (p looking) String() string { return p.text }

func (p looking) MatchString(s string) bool {
	switch {
	case p.notExpression && (s == "" || strings.HasPrefix(strings.TrimSpace(s), "${") || strings.TrimSpace(s[:1]) == ""):
		return false
	case p.notEmpty && (s == "P" || strings.HasSuffix(s, "T")):
		return false
	}
	return p.re.MatchString(s)
}

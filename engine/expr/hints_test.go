package expr_test

import (
	"errors"
	"strings"
	"testing"

	"flunq.io/flunq/engine/expr"
)

// A mistake in an expression is reported with its position and a suggestion. Each case
// lists the source, the token, the message and the suggestion.
func TestSyntaxError(t *testing.T) {
	t.Parallel()
	known := func(name string) bool { return name == "input" || name == "context" }
	for _, tt := range []struct{ src, at, message, suggestion string }{
		{"[.a + ]", "]", "something is missing between + and ]", ""},
		{".a +", "", "the expression ends too early: something is missing after +", ""},
		{`.b == "abc`, `"abc`, "the text that begins here is never closed", `close it with "`},
		{"(.a + 1", "(", "this ( is never closed", "close it with )"},
		{".x | select(.a == [1)", ")", "unexpected )", "close [ with ] first"},
		{".a)", ")", "this ) closes nothing", "remove it"},
		{".a < 1e-3 < 2", "< 2", "a comparison of three values", "join two with and: … and 1e-3 < …"},
		{".a === 1", "===", "jq has no operator ===", "write =="},
		{".a !== 1", "!==", "jq has no operator !==", "write !="},
		{".a && .b", "&&", "jq has no operator &&", "write: and"},
		{".a || .b", "||", "jq has no operator ||", "write: or"},
		{".x and !(.a or .b)", "!", "jq has no operator !", "write: ((.a or .b) | not)"},
		{".a ?? 1", "??", "jq has no operator ??", "write //, which replaces null and false with another value"},
		{".a == 'x y'", "'", "jq writes text in double quotes only", `write: "x y"`},
		{".a == “x”", "“", "jq writes text in double quotes only", `write: "x"`},
		{".a ? 1 : 2", "?", "jq has no ? :", "write: if .a then 1 else 2 end"},
		{".items.0.name", ".0", "the items of a list are not accessed with a dot", "write [0]"},
		{"$.a.b[0]", "$", "in jq the data is the dot, not $", "begin with the dot: .a.b[0]"},
		{".a.größe > 1", "ö", "without quotes, a name has only the letters a to z, not ö", `quote names with other letters: ."…"`},
		{".a[*]", "[", "jq has no [*]", "for all items, write []"},
		{".a.map(.x)", ".map", "jq has no methods: a value goes to a function through |", "write: .a | map(…)"},
		{".a.b.toUpperCase()", ".toUpperCase", "jq has no methods: a value goes to a function through |", "write: (.a.b | ascii_upcase)"},
		{"now()", "()", "a function without arguments has no parentheses", "write now without ()"},
		{`.a contains "x"`, "contains", "a function cannot be between two values", `write: .a | contains("x")`},
		{"1 < .a < 5", "< 5", "a comparison of three values", "join two with and: … and .a < …"},
		{"if .a then 1", "if", "this `if` has no `end`", "write: if … then … else … end"},
		{"if .a then 1 else if .b then 2 else 3", "else if", "`else if` is `elif` in jq", "write: if … then … elif … then … else … end"},
		{".a | upcase", "upcase", "jq has no function upcase", `did you mean "ascii_upcase"?`},
		{`"x \(.a | lenght) y"`, "lenght", "jq has no function lenght", `did you mean "length"?`},
		{"length(.a)", "length", "length takes no arguments, not 1", "write: .a | length"},
		{`.a | gsub("a", "b")`, "gsub", "gsub takes 2 or 3 arguments, not 1", "separate arguments with ; "},
		{".order.first-name", "name", "jq has no function name", `for a member with a - in its name, write: ."first-name"`},
		{"input.name", "input", "input cannot be used: there is no other input", `did you mean "$input"?`},
		{"keys_unsorted", "keys_unsorted", "keys_unsorted cannot be used: the keys of objects are sorted: use keys", ""},
		{"context.x", "context", "jq has no function context", `did you mean "$context"?`},
		{"paid", "paid", "jq has no function paid", `for the member, write .paid; for the text, write "paid"`},
		{".a == None", "None", "jq has no function None", "write null"},
		{".a 1", "1", "an operator is missing between .a and 1", ""},
	} {
		_, err := expr.Compile(tt.src, known)
		syntax, ok := errors.AsType[*expr.SyntaxError](err)
		if !ok {
			t.Errorf("%s: got %v, want a syntax error", tt.src, err)
			continue
		}
		if !strings.HasPrefix(tt.src[syntax.Offset:], tt.at) || tt.at == "" && syntax.Offset != len(tt.src) ||
			syntax.Message != tt.message || syntax.Suggestion != tt.suggestion {
			t.Errorf("%s: at %q: %s (%s)\nwant at %q: %s (%s)",
				tt.src, tt.src[syntax.Offset:], syntax.Message, syntax.Suggestion, tt.at, tt.message, tt.suggestion)
		}
	}
}

// Each unknown function is reported; known ones and the expression's own are not.
func TestUnknownFunctions(t *testing.T) {
	t.Parallel()
	_, err := expr.Compile("def own(f): f | trim; own(.a) | foo | map(bar(1; 2))", known)
	if err == nil || strings.Count(err.Error(), "jq has no function") != 2 {
		t.Errorf("got %v, want foo and bar", err)
	}
}

// Compiling takes bounded time, even if it fails: one of these expressions once took two minutes.
func TestCompileLimits(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"1" + strings.Repeat("+1", 30_000), strings.Repeat("(.a|=", 10_000) + "1" + strings.Repeat(")", 10_000),
		strings.Repeat("map(", 10_000) + "1" + strings.Repeat(")", 10_000), "." + strings.Repeat("[.a]", 15_000),
	} {
		if _, err := expr.Compile(src, known); err == nil || err.Error() != "more than 2000 operators, calls or indices within each other" {
			t.Errorf("%.20s…: %v", src, err)
		}
	}
	if _, err := expr.Compile(strings.Repeat("b|", 25_000)+".", known); err == nil || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("got %v, want one error about b", err)
	}
	for _, src := range []string{"1" + strings.Repeat("+1", 1999), strings.Repeat("select(.a=1)|", 4600) + "."} {
		if _, err := expr.Compile(src, known); err != nil {
			t.Error(err)
		}
	}
}

// Valid jq that probably means something else is doubted, and nothing else is.
func TestDoubts(t *testing.T) {
	t.Parallel()
	known := func(name string) bool { return name == "error" }
	for src, want := range map[string]string{
		"not .paid":                              "not applies to the value before it: this does not negate .paid",
		"[.a .b]":                                ".a .b is one path, .a.b: is something missing between them?",
		".headers.content-type":                  "this subtracts type from .content",
		".order.items.length > 0":                "this reads a member called length",
		`.items | map(select(.status = "paid"))`: "a single = sets .status and compares nothing",
		`.n = 1 | map(select(.paid = true))`:     "a single = sets .paid and compares nothing",
		"error.status":                           "error is jq's function that fails; the error that was caught is $error",
		`"id=\(.a | @urlencode)"`:                "jq has no format @urlencode: this always fails",
		`@base64 "a\(.b)" + "@home"`:             "",
		".a-.b":                                  "",
		".a - now":                               "",
		".box.length":                            "",
		"(.paid | not) and .a":                   "",
		".a = 1 | .b":                            "",
		`.a | if . == 1 then .b = 2 else . end`:  "",
	} {
		p, err := expr.Compile(src, known)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		got := ""
		if doubts := p.Doubts(); len(doubts) > 0 {
			got = doubts[0].Message
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", src, got, want)
		}
	}
}

// A condition that does not depend on data is doubted.
func TestConditionDoubts(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		".a = 1":                            "a single = sets .a and compares nothing",
		"true":                              "this condition is always true",
		`"paid"`:                            "this condition is always true",
		`.s == "a" or "b"`:                  "this condition is always true",
		".a and false":                      "this condition is always false",
		".a == .a":                          "this condition is always true",
		"(.a.b != .a.b)":                    "this condition is always false",
		`.s == "a" or .s == "b"`:            "",
		".a":                                "",
		"(.paid // false)":                  "",
		`.a == 1 and (.b | test("x"))`:      "",
		`"\(.a)" == "x"`:                    "",
		".a as $x | $x":                     "",
		"[] == .a":                          "",
		`($x | length) < 3 or .a == "true"`: "",
	} {
		p, err := expr.Compile(src, func(string) bool { return true })
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		got := ""
		if doubts := p.ConditionDoubts(); len(doubts) > 0 {
			got = doubts[0].Message
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", src, got, want)
		}
	}
}

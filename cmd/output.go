package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
}

// newChoice is a choice among words, the first of which is the default.
func newChoice(words ...string) *choice { return &choice{value: words[0], words: words} }

func (c *choice) String() string { return c.value }

// Type is what the help calls the flag's value.
func (c *choice) Type() string { return "WORD" }

// Set takes a word, or says which there are.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("want %s%s", oneOf(c.words), didYouMean(word, c.words, ""))
	}
	c.value = word
	return nil
}

// outputFlag adds -o to a command; the first format is the default.
func outputFlag(c *cobra.Command, formats ...string) *choice {
	format := newChoice(formats...)
	c.Flags().VarP(format, "output", "o", "format: "+oneOf(formats))
	offer(c, "output", format)
	return format
}

// offer lets the shell complete a flag with the words that it takes.
func offer(c *cobra.Command, flag string, words *choice) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words.words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag was not defined before: our mistake
	}
}

func oneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// writeJSON writes a value for programs, indented because people look at it too.
func writeJSON(w io.Writer, v any) error {
	v = withEmptyLists(v)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// withEmptyLists is a value whose lists are [] in JSON where they are nil, so that
// programs need not tell null from a list without members.
func withEmptyLists(v any) any {
	if v == nil {
		return nil
	}
	of := reflect.New(reflect.TypeOf(v)).Elem()
	of.Set(reflect.ValueOf(v))
	fillLists(of)
	return of.Interface()
}

func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // JSON that is written as it is
		}
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field, member := v.Type().Field(i), v.Field(i)
			omitted := strings.Contains(field.Tag.Get("json"), ",omitempty") && member.IsZero()
			if (field.IsExported() || field.Anonymous) && !omitted {
				fillLists(member)
			}
		}
	default:
	}
}

// An ANSI style, by its code.
const (
	bold   = "1"
	red    = "31;1"
	green  = "32"
	yellow = "33"
)

// paint puts text in a style where colours are on.
func paint(on bool, style, text string) string {
	if !on {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// printable shows control characters instead of sending them to a terminal;
// line breaks and tabs pass.
func printable(text string) string {
	if !strings.ContainsFunc(text, unsafeRune) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unsafeRune(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unsafeRune reports what can move the cursor, or turn the direction of text.
func unsafeRune(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

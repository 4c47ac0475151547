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

// choice is a flag whose value is one of a few words.
type choice struct {
	value string
	words []string
}

// newChoice returns a choice among words; the first one is the default.
func newChoice(words ...string) *choice { return &choice{value: words[0], words: words} }

func (c *choice) String() string { return c.value }

// Type returns the name of the value in the help.
func (c *choice) Type() string { return "WORD" }

// Set accepts one of the words; the error lists all of them.
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
	c.Flags().VarP(format, "output", "o", "print as `FORMAT`: "+oneOf(formats))
	offer(c, "output", format)
	return format
}

// offer completes the words of a flag in the shell.
func offer(c *cobra.Command, flag string, words *choice) {
	err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words.words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is defined by the caller
	}
}

func oneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// writeJSON writes a value as indented JSON.
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

// withEmptyLists replaces nil lists, so that they become [] in JSON and programs need not
// distinguish null from an empty list.
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
			return // JSON that is written verbatim
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

// ANSI styles, by their codes.
const (
	bold   = "1"
	red    = "31;1"
	green  = "32"
	yellow = "33"
)

// paint adds a style to text if colours are on.
func paint(on bool, style, text string) string {
	if !on {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// printable escapes control characters, except line breaks and tabs.
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

// unsafeRune reports whether r can move the cursor or change the direction of text.
func unsafeRune(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}

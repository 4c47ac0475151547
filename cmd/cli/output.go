package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/spelling"
)

// Choice is a flag whose value is one of a few words.
type Choice struct {
	Value string
	Words []string
}

// NewChoice returns a choice among words; the first one is the default.
func NewChoice(words ...string) *Choice { return &Choice{Value: words[0], Words: words} }

func (c *Choice) String() string { return c.Value }

// Type returns the name of the value in the help.
func (c *Choice) Type() string { return "WORD" }

// Set accepts one of the words; the error lists all of them.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.Words, word) {
		return fmt.Errorf("want %s%s", OneOf(c.Words), DidYouMean(word, c.Words, ""))
	}
	c.Value = word
	return nil
}

// WrittenFile is a flag with the name of a file that the command writes.
type WrittenFile struct{ Name *string }

func (f WrittenFile) String() string { return *f.Name }

// Type returns the name of the value in the help.
func (f WrittenFile) Type() string { return "FILE" }

// Set refuses "-", since stdout has the result of the command.
func (f WrittenFile) Set(name string) error {
	if name == "-" {
		return errors.New("want a file, because the output goes to stdout")
	}
	*f.Name = name
	return nil
}

// OutputFlag adds -o to a command; the first format is the default. Without formats, it offers those of
// a List.
func OutputFlag(c *cobra.Command, formats ...string) *Choice {
	if len(formats) == 0 {
		formats = []string{"table", "wide", "json", "jsonl", "yaml", "ids"}
	}
	format := NewChoice(formats...)
	c.Flags().VarP(format, "output", "o", "print as `FORMAT`: "+OneOf(formats))
	Offer(c, "output", format)
	return format
}

// Offer makes the shell complete the words of a flag.
func Offer(c *cobra.Command, flag string, words *Choice) {
	named := slices.DeleteFunc(slices.Clone(words.Words), func(word string) bool { return word == "" })
	CompleteFlag(c, flag, cobra.FixedCompletions(named, cobra.ShellCompDirectiveNoFileComp))
}

// CompleteFlag sets how the shell completes the value of a flag; of a list, its last element.
func CompleteFlag(c *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if f := c.Flags().Lookup(flag); f != nil && f.Value.Type() == "stringSlice" {
		one := complete
		complete = func(c *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
			before := text[:strings.LastIndexByte(text, ',')+1]
			words, directive := one(c, args, text[len(before):])
			words = slices.Clone(words)
			for i := range words {
				words[i] = before + words[i]
			}
			return words, directive
		}
	}
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the caller has defined the flag
	}
}

// limit is a number of rows; 0: all.
type limit int

func (l *limit) String() string { return strconv.Itoa(int(*l)) }

// Type returns the name of the value in the help.
func (*limit) Type() string { return "int" }

// Set accepts a number that is not negative.
func (l *limit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = errors.New("want 0 or more")
	}
	*l = limit(n)
	return err
}

// LimitFlag adds --limit to a command.
func LimitFlag(c *cobra.Command, at *int, usual int, usage string) {
	*at = usual
	c.Flags().Var((*limit)(at), "limit", usage)
}

// OneOf joins words for a message: "a, b or c". Empty words are left out.
func OneOf(words []string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	v = WithEmptyLists(v)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// WithEmptyLists replaces nil lists with empty ones, which JSON shows as [] instead of null.
func WithEmptyLists(v any) any {
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
	Bold   = "1"
	Red    = "31;1"
	Green  = "32"
	Yellow = "33"
)

// Paint adds a style to text if colours are on.
func Paint(on bool, style, text string) string {
	if !on {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// Moment formats a time of an engine for people, in the zone of this machine (TZ) and with its
// offset; the zero time is "". Formats for programs, and runs on a virtual clock, use UTC instead, so
// their output does not depend on the machine.
func Moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.RFC3339Nano)
}

// MomentMillis is a Moment of fixed width, to the millisecond.
func MomentMillis(t time.Time) string { return t.Local().Format("2006-01-02T15:04:05.000Z07:00") }

// Printable escapes control characters, except line breaks and tabs.
func Printable(text string) string { return excerpt.Escaped(text) }

// Harmless returns text verbatim for programs and escaped for a terminal.
func (sh *Shell) Harmless(text string) string {
	if sh.Terminal {
		return Printable(text)
	}
	return text
}

// OneLine returns text on one line, escaped for a terminal.
func OneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Printable(text))
}

// CheckScreen returns an error unless stdout is a terminal that can be drawn on, and there is one for keys.
// Keys need not come from stdin, which may be the input of a workflow.
func CheckScreen(sh *Shell, what string) error {
	switch {
	case !sh.Terminal:
		return Misusef("%s needs a terminal, and stdout is not one", what)
	case sh.Env("TERM") == "dumb":
		return Misusef("%s needs a terminal that can move the cursor, and TERM is dumb", what)
	case sh.InTerminal:
		return nil
	}
	keys, err := os.Open("/dev/tty")
	if err != nil {
		return Misusef("%s reads keys from a terminal, and there is none", what)
	}
	return keys.Close()
}

// Quoted returns arguments as they would be typed in a shell.
func Quoted(args []string) []string {
	out := make([]string, 0, len(args))
	for _, arg := range args {
		out = append(out, Quote(arg))
	}
	return out
}

// Quote quotes a word for a shell.
func Quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@=,+%", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// ShortList joins the first few of many names.
func ShortList(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:few], ", "), history.Number(len(names)-few))
}

// DidYouMean returns a suggestion to append to an error about an unknown word, or "" if no
// candidate is similar or begins with the word.
func DidYouMean(word string, candidates []string, prefix string) string {
	best := spelling.Word(word, candidates)
	for _, candidate := range candidates {
		if len(word) > 1 && strings.HasPrefix(candidate, word) {
			best = candidate
			break
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

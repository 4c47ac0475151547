package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The keys of a command's annotations that hold its rules, one on each line.
const (
	excludeRules = "exclude"
	requireRules = "require"
)

// Exclude allows only one of some flags, since a command would ignore the others. A name with a value, such as
// output=json, is the flag with that value.
func Exclude(c *cobra.Command, flags ...string) { addRule(c, excludeRules, flags) }

// Require allows a flag only together with another one.
func Require(c *cobra.Command, flag, other string) { addRule(c, requireRules, []string{flag, other}) }

func addRule(c *cobra.Command, kind string, flags []string) {
	for _, name := range flags {
		name, _, _ = strings.Cut(name, "=")
		if c.Flags().Lookup(name) == nil {
			panic("there is no flag --" + name) // the caller defines the flags first
		}
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[kind] += strings.Join(flags, " ") + "\n"
}

// CheckFlags returns an error about flags that break a rule of Exclude or Require, or that took another flag for
// the name of a file.
func CheckFlags(c *cobra.Command, _ []string) error {
	var mistaken error
	c.Flags().Visit(func(f *pflag.Flag) {
		if what, _ := pflag.UnquoteUsage(f); what == "FILE" && strings.HasPrefix(f.Value.String(), "-") && f.Value.String() != "-" {
			mistaken = Misusef("--%s %s: want a file; one with such a name is ./%s", f.Name, f.Value, f.Value)
		}
	})
	if mistaken != nil {
		return mistaken
	}
	for rule := range strings.Lines(c.Annotations[excludeRules]) {
		flags := slices.DeleteFunc(strings.Fields(rule), func(name string) bool { return !given(c, name) })
		if len(flags) > 1 {
			return Misusef("%s and %s exclude each other", spelled(flags[0]), spelled(flags[1]))
		}
	}
	for rule := range strings.Lines(c.Annotations[requireRules]) {
		if flags := strings.Fields(rule); given(c, flags[0]) && !given(c, flags[1]) {
			return Misusef("%s requires %s", spelled(flags[0]), spelled(flags[1]))
		}
	}
	return nil
}

// given reports whether a flag is given. An empty one is not: it may come from a script's unset variable.
func given(c *cobra.Command, name string) bool {
	name, wanted, valued := strings.Cut(name, "=")
	flag := c.Flags().Lookup(name)
	value := flag.Value.String()
	if valued {
		return value == wanted
	}
	return flag.Changed && !slices.Contains([]string{"", "false", "[]"}, value)
}

// spelled returns a flag as it is written on the command line.
func spelled(name string) string { return "--" + strings.Replace(name, "=", " ", 1) }

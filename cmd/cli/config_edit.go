package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/cmd/replace"
	"flunq.io/flunq/engine/store"
)

// ConfigKey is a key of the configuration file that a command may change.
type ConfigKey struct {
	Context  string // the context that the key belongs to; "" if none
	Variable string // of the environment, which takes precedence over the key

	path   []string
	others [][]string // the same setting under other names
	check  func(text string) (shown string, err error)
}

// Key finds a key by its name: context, a key of the given context (or of the chosen one, if
// that is empty), or the name of a setting.
func (c *configFile) Key(sh *Shell, name, context string) (ConfigKey, error) {
	key := ConfigKey{Context: cmp.Or(context, sh.Env("FLUNQ_CONTEXT"), c.Current.Text)}
	key.path = []string{"contexts", key.Context, name}
	key.check = func(text string) (string, error) { return text, nil }
	switch name {
	case "redis-url":
		key.Variable = "REDIS_URL"
		key.check = func(text string) (string, error) {
			shown := text
			if strings.Contains(text, "@") {
				shown = RedactedURL(text)
			}
			return shown, store.CheckAddress(text)
		}
	case "redis-password-file":
		key.Variable = "REDIS_PASSWORD"
	case "tenant":
		key.Variable = "FLUNQ_TENANT"
		key.check = func(text string) (string, error) { return text, store.CheckTenant(text) }
	default:
		if context != "" {
			return key, Misusef("key %q of a context: want %s%s", name, OneOf(contextKeys()), DidYouMean(name, contextKeys(), ""))
		}
		return c.globalKey(name)
	}
	if key.Context == "" {
		return key, Misusef("%s belongs to a context, and none is chosen: name one with --context", name)
	}
	return key, nil
}

// globalKey finds a key that belongs to no context.
func (c *configFile) globalKey(name string) (ConfigKey, error) {
	if name == "context" {
		return ConfigKey{path: []string{name}, Variable: "FLUNQ_CONTEXT", check: func(text string) (string, error) {
			_, err := c.Context(text, "config")
			return text, err
		}}, nil
	}
	one, known := new(Settings).find(name)
	if one.name == "" {
		return ConfigKey{}, Misusef("unknown key %q%s; 'flunq config show' lists the settings", name, DidYouMean(name, append(known, contextKeys()...), ""))
	}
	key := ConfigKey{path: []string{"settings", settingKey(name)}, Variable: one.name, check: func(text string) (string, error) {
		if err := one.set(name, text); err != nil {
			return "", fmt.Errorf("%s %q: %w", name, text, err)
		}
		return one.value.String(), nil
	}}
	settings, _ := child(c.root, "settings")
	for i := 0; settings != nil && i+1 < len(settings.Content); i += 2 {
		if written := settings.Content[i].Value; written != key.path[1] && one.is(written) {
			key.others = append(key.others, []string{"settings", written})
		}
	}
	return key, nil
}

// Set sets a key, and keeps the other keys and the comments. It returns the value with secrets
// redacted.
func (c *configFile) Set(key ConfigKey, value string) (shown string, err error) {
	if shown, err = key.check(value); err != nil {
		return "", Fail(ExitMisuse, err)
	}
	c.removeKeys(key.others...)
	n := c.root
	for _, name := range key.path {
		if len(n.Content) == 0 { // empty, null or {}
			*n = yaml3.Node{Kind: yaml3.MappingNode, HeadComment: n.HeadComment, FootComment: n.FootComment}
		}
		next, _ := child(n, name)
		if next == nil {
			next = &yaml3.Node{}
			n.Content = append(n.Content, textNode(name), next)
		}
		if next.Kind == yaml3.AliasNode {
			return "", Misusef("%s:%d: %s is an alias: edit it by hand", c.Path, next.Line, name)
		}
		n = next
	}
	comment := n.LineComment
	*n = *textNode(value)
	n.LineComment = comment
	return shown, c.write()
}

// Unset removes a key, and reports whether the file had it.
func (c *configFile) Unset(key ConfigKey) (bool, error) {
	had := c.removeKeys(append(key.others, key.path)...)
	if !had {
		return false, nil
	}
	return true, c.write()
}

// Remove removes a context. If it was the chosen one, no context is chosen afterwards.
func (c *configFile) Remove(context string) error {
	if _, err := c.Context(context, "config rm"); err != nil {
		return err
	}
	c.removeKeys([]string{"contexts", context})
	if c.Current.Text == context {
		c.removeKeys([]string{"context"})
	}
	return c.write()
}

// removeKeys removes keys by their paths, and reports whether there was any of them.
func (c *configFile) removeKeys(paths ...[]string) (had bool) {
	for _, path := range paths {
		n, last := c.root, len(path)-1
		for _, name := range path[:last] {
			if n != nil {
				n, _ = child(n, name)
			}
		}
		if n == nil {
			continue
		}
		if value, at := child(n, path[last]); value != nil {
			n.Content, had = slices.Delete(n.Content, at, at+2), true
		}
	}
	return had
}

// child returns the value of a key of a map and the position of the key; nil if there is none.
func child(n *yaml3.Node, key string) (value *yaml3.Node, at int) {
	for ; n.Kind == yaml3.MappingNode && at+1 < len(n.Content); at += 2 {
		if n.Content[at].Value == key {
			return n.Content[at+1], at
		}
	}
	return nil, 0
}

// textNode returns a scalar, quoted only if YAML would read it as null.
func textNode(text string) *yaml3.Node {
	n := &yaml3.Node{Kind: yaml3.ScalarNode, Value: text}
	if n.ShortTag() == "!!null" {
		n.Style = yaml3.DoubleQuotedStyle
	}
	return n
}

// write writes the file. Only its owner can read a new one.
func (c *configFile) write() error {
	var text bytes.Buffer
	enc := yaml3.NewEncoder(&text)
	enc.SetIndent(2)
	err := enc.Encode(&c.document)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.Path), 0o700)
	}
	if err == nil {
		err = replace.File(c.Path, withBlankLines(text.Bytes(), c.text))
	}
	if err != nil {
		return Fail(ExitMisuse, fmt.Errorf("%s: %w", c.Path, err))
	}
	return nil
}

// withBlankLines returns text with the blank lines of a former text, which the YAML encoder drops: each
// before the entry or comment that followed it.
func withBlankLines(text []byte, former string) []byte {
	entry := func(line string) string {
		line = strings.TrimSpace(line)
		if key, _, ok := strings.Cut(line, ":"); ok && line[0] != '#' {
			return key
		}
		return line
	}
	lines := strings.SplitAfter(string(text), "\n")
	at, blank := 0, false
	for old := range strings.Lines(former) {
		if strings.TrimSpace(old) == "" {
			blank = true
			continue
		}
		i := slices.IndexFunc(lines[at:], func(line string) bool { return entry(line) == entry(old) })
		if i < 0 {
			continue // it was removed
		}
		at += i
		if blank && at > 0 && strings.TrimSpace(lines[at-1]) != "" {
			lines = slices.Insert(lines, at, "\n")
			at++
		}
		at, blank = at+1, false
	}
	out := []byte(strings.Join(lines, ""))
	var before, after any
	if yaml3.Unmarshal(text, &before) != nil || yaml3.Unmarshal(out, &after) != nil || !reflect.DeepEqual(before, after) {
		return text // a blank line would change a value of several lines
	}
	return out
}

// CompleteConfigKeys completes the keys of the configuration file.
func CompleteConfigKeys(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	_, known := new(Settings).find("")
	return slices.Concat([]string{"context"}, contextKeys(), known), cobra.ShellCompDirectiveNoFileComp
}

package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

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
	for written := range flat(c.root) {
		if section, other, _ := strings.Cut(written, pathSeparator); section == "settings" && other != key.path[1] && one.is(other) {
			key.others = append(key.others, []string{section, other})
		}
	}
	return key, nil
}

// Set sets a key and keeps the rest of the file. It returns the value with secrets redacted.
func (c *configFile) Set(key ConfigKey, value string) (shown string, err error) {
	if shown, err = key.check(value); err != nil {
		return "", Fail(ExitMisuse, err)
	}
	return shown, c.change(key.others, key.path, value)
}

// Unset removes a key, and reports whether the file had it.
func (c *configFile) Unset(key ConfigKey) (bool, error) {
	_, had := flat(c.root)[strings.Join(key.path, pathSeparator)]
	return had || key.others != nil, c.change(append(key.others, key.path), nil, "")
}

// Remove removes a context. If it was the chosen one, no context is chosen afterwards.
func (c *configFile) Remove(context string) error {
	if _, err := c.Context(context, "config rm"); err != nil {
		return err
	}
	gone := [][]string{{"contexts", context}}
	if c.Current.Text == context {
		gone = append(gone, []string{"context"})
	}
	return c.change(gone, nil, "")
}

// change removes some paths of the file and sets another one, line by line, so that comments
// and layout stay. It writes the file only if exactly these paths have changed.
func (c *configFile) change(gone [][]string, path []string, value string) error {
	text, want := c.source, flat(c.root)
	for _, one := range gone {
		text = editLines(text, one, "", true)
		prefix := strings.Join(one, pathSeparator)
		maps.DeleteFunc(want, func(key, _ string) bool {
			return key == prefix || strings.HasPrefix(key, prefix+pathSeparator)
		})
	}
	if path != nil {
		text = editLines(text, path, value, false)
		want[strings.Join(path, pathSeparator)] = value
	}
	if root, err := configRoot(text); err != nil || !maps.Equal(flat(root), want) {
		return Misusef("%s: cannot be changed line by line: edit it by hand", c.Path)
	}
	err := os.MkdirAll(filepath.Dir(c.Path), 0o700)
	if err == nil {
		err = replace.File(c.Path, []byte(text))
	}
	if err != nil {
		return Fail(ExitMisuse, fmt.Errorf("%s: %w", c.Path, err))
	}
	return nil
}

// pathSeparator joins the keys of a path.
const pathSeparator = "\x00"

// flat returns the scalar values of a map by their paths.
func flat(n *yaml.Node) map[string]string {
	all := map[string]string{}
	var add func(n *yaml.Node, path string)
	add = func(n *yaml.Node, path string) {
		switch {
		case n.Kind == yaml.AliasNode:
			add(n.Alias, path)
		case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
			all[path] = n.Value
		}
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			add(n.Content[i+1], strings.TrimPrefix(path+pathSeparator+n.Content[i].Value, pathSeparator))
		}
	}
	add(n, "")
	return all
}

// editLines sets the value at a path of keys, or removes it. If the path does not have lines of
// its own, the result is wrong, and the caller must detect that.
func editLines(text string, path []string, value string, remove bool) string {
	root, err := configRoot(text)
	if err != nil {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	lines := slices.Collect(strings.Lines(text))
	at, indent := len(lines), 0 // of a new line below parent
	for i, parent := 0, root; i < len(path); i++ {
		if len(parent.Content) > 0 {
			at, indent = lastLine(parent), parent.Content[0].Column-1
		}
		k := 0
		for k < len(parent.Content) && parent.Content[k].Value != path[i] {
			k += 2
		}
		if k >= len(parent.Content) {
			if !remove {
				lines = slices.Insert(lines, at, newLines(indent, path[i:], value))
			}
			break
		}
		key, child := parent.Content[k], parent.Content[k+1]
		if i+1 == len(path) {
			line := lines[key.Line-1]
			tail := line[len(strings.TrimRight(strings.TrimSuffix(line, child.LineComment+"\n"), " \t\r\n")):]
			lines[key.Line-1] = strings.Repeat(" ", key.Column-1) + yamlText(path[i]) + ": " + yamlText(value) + tail
			if remove {
				lines[key.Line-1] = ""
			}
			lines = slices.Delete(lines, key.Line, max(key.Line, lastLine(child)))
			break
		}
		at, indent, parent = key.Line, key.Column+1, child
	}
	return strings.Join(lines, "")
}

// lastLine returns the last line on which a node has text.
func lastLine(n *yaml.Node) int {
	line := 0
	if n.Tag != "!!null" {
		line = n.Line
	}
	for _, child := range n.Content {
		line = max(line, lastLine(child))
	}
	return line
}

// newLines writes a path of keys and its value.
func newLines(indent int, path []string, value string) string {
	var b strings.Builder
	for i, key := range path {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat(" ", indent+2*i), yamlText(key))
		if i+1 < len(path) {
			b.WriteByte('\n')
		}
	}
	return b.String() + " " + yamlText(value) + "\n"
}

// yamlText writes a scalar, quoted if YAML requires it.
func yamlText(text string) string {
	n := yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if n.ShortTag() == "!!null" {
		n.Style = yaml.DoubleQuotedStyle
	}
	out, err := yaml.Marshal(&n)
	if err != nil {
		return "" // not UTF-8: the caller compares
	}
	return strings.TrimSuffix(string(out), "\n")
}

// CompleteConfigKeys completes the keys of the configuration file.
func CompleteConfigKeys(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	_, known := new(Settings).find("")
	return slices.Concat([]string{"context"}, contextKeys(), known), cobra.ShellCompDirectiveNoFileComp
}

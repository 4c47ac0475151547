package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/store"
)

// configFile is a parsed configuration file: the contexts, the selected one, and the settings of
// the services.
type configFile struct {
	path     string
	current  configText // the selected context
	contexts []configContext
	settings map[string]configText // by name of the environment variable
}

// configText is a value and its position, FILE:LINE:COLUMN.
type configText struct{ text, place string }

// configContext names an engine: its Redis and its tenant.
type configContext struct {
	name                      string
	url, passwordFile, tenant configText
	place                     string
}

// configPath returns the path of the file, and whether FLUNQ_CONFIG names it.
func configPath(sh *shell) (path string, named bool) {
	if path := sh.Env("FLUNQ_CONFIG"); path != "" {
		return path, true
	}
	folder := sh.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(folder) { // the XDG specification says to ignore relative paths
		folder = filepath.Join(sh.Env("HOME"), ".config")
	}
	return filepath.Join(folder, "flunq", "config.yaml"), false
}

// configLimit is the maximum size of a configuration file, in bytes.
const configLimit = 1 << 20

// readConfig reads the configuration file. A missing file is empty, unless it was named explicitly.
// The error lists all mistakes with their positions.
func readConfig(sh *shell) (*configFile, error) {
	path, named := configPath(sh)
	c := &configFile{path: path, settings: map[string]configText{}}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return c, nil
	case err != nil:
		return nil, fail(exitMisuse, fmt.Errorf("configuration %w", withoutVerb(path, err)))
	case len(text) > configLimit:
		return nil, misusef("configuration %s: larger than %d KiB", path, configLimit>>10)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, misusef("configuration %s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) == 0 {
		return c, nil
	}
	r := configReader{file: c}
	r.document(doc.Content[0])
	return c, fail(exitMisuse, errors.Join(r.errs...))
}

// setting returns the value of a setting by any of its names.
func (c *configFile) setting(name string) (configText, bool) {
	if c == nil {
		return configText{}, false
	}
	v, ok := c.settings[name]
	return v, ok
}

// context returns a context by its name; from is the source of the name, for the error message.
func (c *configFile) context(name, from string) (configContext, error) {
	var names []string
	for _, one := range c.contexts {
		if one.name == name {
			return one, nil
		}
		names = append(names, one.name)
	}
	there := "it has none"
	if len(names) > 0 {
		there = "there are " + strings.Join(names, ", ") + didYouMean(name, names, "")
	}
	return configContext{}, misusef("%s: no context %q in %s: %s", from, name, c.path, there)
}

// configReader parses the file and collects its mistakes.
type configReader struct {
	file *configFile
	errs []error
}

func (r *configReader) place(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", r.file.path, n.Line, n.Column)
}

func (r *configReader) wrong(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", r.place(n), fmt.Sprintf(format, args...)))
}

// pairs calls take with each key and value of a map, and reports duplicate keys.
func (r *configReader) pairs(n *yaml.Node, what string, take func(key, value *yaml.Node)) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" {
			r.wrong(n, "%s: want a map", what)
		}
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if seen[key.Value] {
			r.wrong(key, "%s: key %q stands there twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		take(key, value)
	}
}

// text returns a scalar value, and reports any other.
func (r *configReader) text(key, n *yaml.Node) configText {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.wrong(n, "%s: want a text", key.Value)
		return configText{}
	}
	return configText{n.Value, r.place(n)}
}

func (r *configReader) unknown(key *yaml.Node, known []string) {
	near := didYouMean(key.Value, known, "")
	if near == "" && len(known) < 10 {
		near = ": want " + oneOf(known)
	}
	r.wrong(key, "unknown key %q%s", key.Value, near)
}

func (r *configReader) document(n *yaml.Node) {
	r.pairs(n, "the configuration", func(key, value *yaml.Node) {
		switch key.Value {
		case "context":
			r.file.current = r.text(key, value)
		case "contexts":
			r.pairs(value, "contexts", r.context)
		case "settings":
			r.pairs(value, "settings", r.setting)
		default:
			r.unknown(key, []string{"context", "contexts", "settings"})
		}
	})
}

func (r *configReader) context(name, n *yaml.Node) {
	c := configContext{name: name.Value, place: r.place(name)}
	r.pairs(n, "context "+name.Value, func(key, value *yaml.Node) {
		switch key.Value {
		case "redis-url":
			c.url = r.text(key, value)
		case "redis-password-file":
			c.passwordFile = r.text(key, value)
		case "tenant":
			c.tenant = r.text(key, value)
			if err := store.CheckTenant(c.tenant.text); c.tenant.text != "" && err != nil {
				r.wrong(value, "%v", err)
			}
		default:
			r.unknown(key, []string{"redis-url", "redis-password-file", "tenant"})
		}
	})
	r.file.contexts = append(r.file.contexts, c)
}

// setting stores a setting of the services, written worker-count or WORKER_COUNT.
func (r *configReader) setting(key, value *yaml.Node) {
	var defaults settings
	var known []string
	name := strings.ToUpper(strings.ReplaceAll(key.Value, "-", "_"))
	for _, one := range defaults.table() {
		for _, other := range append([]string{one.name}, one.aliases...) {
			known = append(known, settingKey(other))
			if other == name {
				r.file.settings[name] = r.text(key, value)
				return
			}
		}
	}
	r.unknown(key, known)
}

// password reads the password file of a context; a relative path is relative to the configuration
// file.
func (c configContext) password(file *configFile) (string, error) {
	path := c.passwordFile.text
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file.path), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fail(exitMisuse, fmt.Errorf("%s: password file %w", cmp.Or(c.passwordFile.place, c.place), withoutVerb(path, err)))
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

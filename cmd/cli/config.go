package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/store"
)

// configFile is a parsed configuration file: the contexts, the selected one, and the settings of
// the services.
type configFile struct {
	Path     string
	Current  configText // the selected context
	Contexts []configContext
	Settings map[string]configText // by name of the environment variable

	Scheduler *SchedulerFile // takes precedence over Settings; may be nil

	text     string     // of the file when it was read
	document yaml.Node  // with the comments
	root     *yaml.Node // its map, or an empty node
}

// configText is a value and its position, FILE:LINE:COLUMN.
type configText struct{ Text, place string }

// configContext names an engine: its Redis and its tenant.
type configContext struct {
	Name                      string
	URL, passwordFile, Tenant configText
	place                     string
}

// ConfigPath returns the path of the file, and whether FLUNQ_CONFIG names it.
func ConfigPath(sh *Shell) (path string, named bool) {
	if path := sh.Env("FLUNQ_CONFIG"); path != "" {
		return path, true
	}
	folder := sh.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(folder) { // the XDG specification says to ignore relative paths
		folder = filepath.Join(home(sh), ".config")
	}
	return filepath.Join(folder, "flunq", "config.yaml"), false
}

// home returns the user's home folder. Services often run without HOME; the current folder must not take
// its place, since a configuration that somebody else left there would be trusted.
func home(sh *Shell) string {
	if folder := sh.Env("HOME"); filepath.IsAbs(folder) {
		return folder
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return string(filepath.Separator)
}

// configLimit is the maximum size of a configuration file, in bytes.
const configLimit = 1 << 20

// ReadConfig reads the configuration file. A missing file is empty, unless it was named
// explicitly. The error lists all mistakes with their positions.
func ReadConfig(sh *Shell) (*configFile, error) {
	path, named := ConfigPath(sh)
	c := &configFile{Path: path, Settings: map[string]configText{}, root: &yaml.Node{}}
	c.document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{c.root}}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return c, nil
	case err != nil:
		return c, Fail(ExitMisuse, fmt.Errorf("configuration %w", WithoutVerb(path, err)))
	case len(text) > configLimit:
		return nil, Misusef("configuration %s: larger than %d KiB", path, configLimit>>10)
	}
	c.text = string(text)
	var parsed yaml.Node
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return nil, Misusef("configuration %s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	r := configReader{file: c}
	if len(parsed.Content) > 0 {
		c.document, c.root = parsed, parsed.Content[0]
		r.document(c.root)
	} else {
		c.document.HeadComment = strings.TrimSpace(string(text)) // it has only comments
	}
	return c, Fail(ExitMisuse, errors.Join(r.errs...))
}

// EditableConfig reads the configuration file in order to change it: a missing file is empty.
func EditableConfig(sh *Shell) (*configFile, error) {
	c, err := ReadConfig(sh)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return c, err
}

// setting returns the value of a setting by any of its names.
func (c *configFile) setting(name string) (configText, bool) {
	if c == nil {
		return configText{}, false
	}
	v, ok := c.Settings[name]
	return v, ok
}

// Context returns a context by name. The error message mentions from, the origin of the
// name.
func (c *configFile) Context(name, from string) (configContext, error) {
	var names []string
	for _, one := range c.Contexts {
		if one.Name == name {
			return one, nil
		}
		names = append(names, one.Name)
	}
	known := "it has none"
	if len(names) > 0 {
		known = "it has " + strings.Join(names, ", ") + DidYouMean(name, names, "")
	}
	return configContext{}, Misusef("%s: no context %q in %s: %s", from, name, c.Path, known)
}

// scheduler returns the file of the scheduler, nil if there is none.
func (c *configFile) scheduler() *SchedulerFile {
	if c == nil {
		return nil
	}
	return c.Scheduler
}

// configReader parses the file and collects its mistakes.
type configReader struct {
	file *configFile
	errs []error
}

func (r *configReader) place(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", r.file.Path, n.Line, n.Column)
}

func (r *configReader) wrong(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", r.place(n), fmt.Sprintf(format, args...)))
}

// pairs calls take with each key and value of a map. Duplicate keys are mistakes.
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
			r.wrong(key, "%s: key %q is defined twice", what, key.Value)
			continue
		}
		seen[key.Value] = true
		take(key, value)
	}
}

// text returns a scalar value. Any other node is a mistake.
func (r *configReader) text(key, n *yaml.Node) configText {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.wrong(n, "%s: want text", key.Value)
		return configText{}
	}
	return configText{n.Value, r.place(n)}
}

func (r *configReader) unknown(key *yaml.Node, known []string) {
	near := DidYouMean(key.Value, known, "")
	if near == "" && len(known) < 10 {
		near = ": want " + OneOf(known)
	}
	r.wrong(key, "unknown key %q%s", key.Value, near)
}

func (r *configReader) document(n *yaml.Node) {
	r.pairs(n, "the configuration", func(key, value *yaml.Node) {
		switch key.Value {
		case "context":
			r.file.Current = r.text(key, value)
		case "contexts":
			r.pairs(value, "contexts", r.context)
		case "settings":
			r.pairs(value, "settings", r.setting)
		default:
			r.unknown(key, []string{"context", "contexts", "settings"})
		}
	})
}

// contextKeys returns the keys of a context.
func contextKeys() []string { return []string{"redis-url", "redis-password-file", "tenant"} }

func (r *configReader) context(name, n *yaml.Node) {
	c := configContext{Name: name.Value, place: r.place(name)}
	r.pairs(n, "context "+name.Value, func(key, value *yaml.Node) {
		switch key.Value {
		case "redis-url":
			c.URL = r.text(key, value)
		case "redis-password-file":
			c.passwordFile = r.text(key, value)
		case "tenant":
			c.Tenant = r.text(key, value)
			if err := store.CheckTenant(c.Tenant.Text); c.Tenant.Text != "" && err != nil {
				r.wrong(value, "%v", err)
			}
		default:
			r.unknown(key, contextKeys())
		}
	})
	r.file.Contexts = append(r.file.Contexts, c)
}

// setting stores a setting of the services, written worker-count or WORKER_COUNT.
func (r *configReader) setting(key, value *yaml.Node) {
	one, known := new(Settings).find(key.Value)
	if one.name == "" {
		r.unknown(key, known)
		return
	}
	r.file.Settings[settingName(key.Value)] = r.text(key, value)
}

// password reads the password file of a context; a relative path is relative to the configuration
// file.
func (c configContext) password(file *configFile) (string, error) {
	path := c.passwordFile.Text
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file.Path), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", Fail(ExitMisuse, fmt.Errorf("%s: password file %w", cmp.Or(c.passwordFile.place, c.place), WithoutVerb(path, err)))
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// Sources returns the values of a location with their origins, passwords redacted.
func (p location) Sources() []source {
	p.URL.Value, p.URL.Help = store.Redacted(p.URL.Value), "address of Redis"
	p.tenant.Help = "tenant that commands act for"
	p.context.Help = "context of the configuration file"
	p.password.Help = "password of Redis"
	if p.password.Value != "" || p.password.From != "" {
		p.password.Value = "***"
	}
	for _, s := range []*source{&p.password, &p.context} {
		s.From = cmp.Or(s.From, fromDefault)
	}
	return []source{p.URL, p.password, p.tenant, p.context}
}

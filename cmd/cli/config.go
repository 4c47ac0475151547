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

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/yaml"
)

// configFile is a parsed configuration file: the contexts, the selected one, and the settings of
// the services.
type configFile struct {
	Path     string
	Current  configText // the selected context
	Contexts []configContext
	Settings map[string]configText // by name of the environment variable

	Scheduler *SchedulerFile // takes precedence over Settings; may be nil

	text     string      // of the file when it was read
	document yaml3.Node  // with the comments
	root     *yaml3.Node // its map, or an empty node
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
// its place, since a configuration that another user left there would be trusted.
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
	c := &configFile{Path: path, Settings: map[string]configText{}, root: &yaml3.Node{}}
	c.document = yaml3.Node{Kind: yaml3.DocumentNode, Content: []*yaml3.Node{c.root}}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return c, nil
	case err != nil:
		return c, Fail(ExitMisuse, fmt.Errorf("configuration %w", WithoutVerb(path, err)))
	case len(text) > configLimit:
		return nil, Misusef("configuration %s: larger than %d KiB", path, configLimit>>10)
	}
	r := configReader{yaml.NewReader(path, text), c}
	if root := r.Root(); root != nil {
		section(r.Reader, "the configuration", yaml.Fields{
			"context":  func(n *yaml3.Node) { c.Current = r.text("context", n) },
			"contexts": section(r.Reader, "contexts", nil, r.context),
			"settings": section(r.Reader, "settings", nil, r.setting),
		}, nil)(root)
	}
	if err := r.Err(); err != nil {
		return c, Fail(ExitMisuse, err)
	}
	c.text = string(text)
	var parsed yaml3.Node
	if err := yaml3.Unmarshal(text, &parsed); err != nil {
		return nil, Misusef("configuration %s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(parsed.Content) > 0 {
		c.document, c.root = parsed, parsed.Content[0]
	} else {
		c.document.HeadComment = strings.TrimSpace(c.text) // it has only comments
	}
	return c, nil
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

// configReader reads the values of the file.
type configReader struct {
	*yaml.Reader
	file *configFile
}

func (r *configReader) place(n *yaml3.Node) string {
	return fmt.Sprintf("%s:%d:%d", r.file.Path, n.Line, n.Column)
}

// section returns a reader of a map that may be empty.
func section(r *yaml.Reader, what string, known yaml.Fields, rest func(key, value *yaml3.Node)) func(*yaml3.Node) {
	return func(n *yaml3.Node) {
		if yaml.Spelled(n) != "empty" {
			r.Object(n, what, known, rest)
		}
	}
}

func (r *configReader) text(key string, n *yaml3.Node) configText {
	return configText{r.Text(n, key), r.place(n)}
}

// contextKeys returns the keys of a context.
func contextKeys() []string { return []string{"redis-url", "redis-password-file", "tenant"} }

func (r *configReader) context(name, n *yaml3.Node) {
	c := configContext{Name: name.Value, place: r.place(name)}
	section(r.Reader, "context "+name.Value, yaml.Fields{
		"redis-url":           func(n *yaml3.Node) { c.URL = r.text("redis-url", n) },
		"redis-password-file": func(n *yaml3.Node) { c.passwordFile = r.text("redis-password-file", n) },
		"tenant": func(n *yaml3.Node) {
			c.Tenant = r.text("tenant", n)
			if err := store.CheckTenant(c.Tenant.Text); c.Tenant.Text != "" && err != nil {
				r.Errorf(n, "%v", err)
			}
		},
	}, nil)(n)
	r.file.Contexts = append(r.file.Contexts, c)
}

// setting stores a setting of the services, written worker-count or WORKER_COUNT.
func (r *configReader) setting(key, value *yaml3.Node) {
	one, known := new(Settings).find(key.Value)
	if one.name == "" {
		r.Errorf(key, "unknown key %q%s", key.Value, DidYouMean(key.Value, known, ""))
		return
	}
	r.file.Settings[settingName(key.Value)] = r.text(key.Value, value)
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

// Package definitions caches the parsed definitions of registered workflows for the
// services of one process.
package definitions

import (
	"context"
	"fmt"
	"sync"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
)

// Cache loads definitions from Redis and keeps them parsed. It is safe for concurrent use.
type Cache struct {
	// Parse replaces dsl.Parse if it is set before the first use. The simulator sets it because it
	// has already parsed its documents.
	Parse func(workflow string, text []byte) (*dsl.Definition, error)

	store *store.Store
	opts  decide.Options

	mu    sync.Mutex
	known map[string]*decide.Env // by hash
}

// New returns a Cache of the definitions in st; opts apply to all of them.
func New(st *store.Store, opts decide.Options) *Cache {
	opts.Redactor = event.NewRedactor(opts.Secrets)
	parse := func(workflow string, text []byte) (*dsl.Definition, error) {
		def, _, err := dsl.Parse(workflow, text)
		return def, err
	}
	return &Cache{Parse: parse, store: st, opts: opts, known: map[string]*decide.Env{}}
}

// Redact replaces the secrets in text with asterisks.
func (c *Cache) Redact(text string) string { return c.opts.Redactor.Redact(text) }

// capacity is the maximum number of cached definitions; all of them are dropped before one more is added.
const capacity = 1000

// Register stores a document under its name and version, and returns its hash.
func (c *Cache) Register(ctx context.Context, tenant string, def *dsl.Definition) (hash string, err error) {
	hash, err = registry.New(c.store).Define(ctx, tenant, def.ID(), def.Document.Version, string(def.Source))
	if err != nil {
		return "", fmt.Errorf("register workflow %s: %w", def.ID(), err)
	}
	c.keep(hash, decide.NewEnv(def, c.opts))
	return hash, nil
}

// Version returns the definition with a version, and its hash; "" or "latest" means the newest
// version. The error wraps store.ErrNotFound if the version is not registered.
func (c *Cache) Version(ctx context.Context, tenant, workflow, version string) (*decide.Env, string, error) {
	hash, text, err := registry.New(c.store).Definition(ctx, tenant, workflow, version)
	if err != nil {
		return nil, "", err
	}
	env, err := c.env(workflow, hash, text)
	return env, hash, err
}

// Hash returns the definition with a hash, which each execution stores.
func (c *Cache) Hash(ctx context.Context, tenant, workflow, hash string) (*decide.Env, error) {
	if env := c.Known(hash); env != nil {
		return env, nil
	}
	text, err := registry.New(c.store).DefinitionByHash(ctx, tenant, workflow, hash)
	if err != nil {
		return nil, err
	}
	return c.env(workflow, hash, text)
}

// env returns the cached definition with a hash, or parses its source and caches it.
func (c *Cache) env(workflow, hash, text string) (*decide.Env, error) {
	if env := c.Known(hash); env != nil {
		return env, nil
	}
	def, err := c.Parse(workflow, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("parse registered workflow %s: %w", workflow, err)
	}
	env := decide.NewEnv(def, c.opts)
	c.keep(hash, env)
	return env, nil
}

// Known returns the definition with a hash if it is cached, otherwise nil.
func (c *Cache) Known(hash string) *decide.Env {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[hash]
}

func (c *Cache) keep(hash string, env *decide.Env) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= capacity {
		clear(c.known)
	}
	c.known[hash] = env
}

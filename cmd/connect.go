package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/inspect"
	"flunq.io/flunq/engine/store"
)

// target selects the Redis and the tenant of a command.
type target struct {
	sh                   *shell
	url, tenant, context string // from the flags; empty: from the environment or the configuration
}

// targetFlags adds the flags that select the engine.
func targetFlags(c *cobra.Command, sh *shell) *target {
	t := &target{sh: sh}
	f := c.Flags()
	f.StringVar(&t.url, "redis-url", "", "use the Redis at `URL`: redis://host:port/db, rediss://… or host:port")
	f.StringVar(&t.tenant, "tenant", "", "act for the tenant `NAME`")
	f.StringVar(&t.context, "context", "", "use the context `NAME` of the configuration (see 'flunq config')")
	if err := c.RegisterFlagCompletionFunc("context", completeContexts(sh)); err != nil {
		panic(err) // the flag is defined above
	}
	return t
}

// remote is a connection to the Redis of an engine.
type remote struct {
	rdb    *redis.Client
	store  *store.Store
	tenant string

	examines *inspect.Examiner
}

// examiner returns an examiner of what executions wait for.
func (r *remote) examiner() *inspect.Examiner {
	if r.examines == nil {
		r.examines = &inspect.Examiner{Store: r.store, Definitions: definitions.New(r.store, decide.Options{Version: version().Version})}
	}
	return r.examines
}

// close closes the connection.
func (r *remote) close() { _ = r.rdb.Close() }

// connect opens the Redis selected by, in this order, the flags, the environment, the configuration
// or a running flunq dev.
func (t *target) connect(ctx context.Context) (*remote, error) {
	silence()
	p, err := t.resolve(ctx)
	if err != nil {
		return nil, err
	}
	rdb, err := store.Dial(ctx, p.address())
	switch {
	case errors.Is(err, store.ErrUnreachable) && p.url.From == fromDefault:
		return nil, fail(exitUnreachable, fmt.Errorf("%w\nstart an engine with 'flunq dev', or name its Redis: --redis-url, REDIS_URL or a context (flunq config --help)", err))
	case errors.Is(err, store.ErrUnreachable):
		return nil, fail(exitUnreachable, fmt.Errorf("%w (%s)", err, p.url.From))
	case err != nil:
		return nil, fail(exitMisuse, err)
	}
	return &remote{rdb: rdb, store: store.New(rdb, store.Options{}), tenant: p.tenant.Value}, nil
}

// silence keeps go-redis from logging to stderr: its errors are returned and reported.
func silence() { redis.SetLogger(silent{}) }

// defaultRedis is the Redis that is used if none is selected.
const defaultRedis = "redis://127.0.0.1:6379"

// place is the address of an engine, with the source of each value.
type place struct {
	url, password, tenant, context source // the values as they were given
}

// address returns the URL including the password.
func (p place) address() string {
	if p.password.Value == "" {
		return p.url.Value
	}
	address := p.url.Value
	if !strings.Contains(address, "://") {
		address = "redis://" + address
	}
	scheme, rest, _ := strings.Cut(address, "://")
	user := ""
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, rest = rest[:at], rest[at+1:]
	}
	return scheme + "://" + user + ":" + strings.TrimPrefix(url.UserPassword("", p.password.Value).String(), ":") + "@" + rest
}

// hasPassword reports whether an address contains a password.
func hasPassword(address string) bool {
	_, rest, _ := strings.Cut(address, "://")
	at := strings.LastIndex(rest, "@")
	return at >= 0 && strings.Contains(rest[:at], ":")
}

// chosen is the selected context and the precedence of its selection.
type chosen struct {
	configContext

	from   string
	byFlag bool
}

// resolve determines the Redis and the tenant. A context selected by a flag takes precedence over
// the environment, as the flags do.
func (t *target) resolve(ctx context.Context) (place, error) {
	file, err := readConfig(t.sh)
	if err != nil {
		return place{}, err
	}
	c, err := t.choose(file)
	if err != nil {
		return place{}, err
	}
	p := place{context: source{Name: "context", Value: c.name, From: c.from}}
	p.url = c.pick("redis-url", flagged(t.url, "redis-url"), t.variable("REDIS_URL"), c.says(c.url))
	p.tenant = c.pick("tenant", flagged(t.tenant, "tenant"), t.variable("FLUNQ_TENANT"), c.says(c.tenant))
	if p.url.From == "" {
		p.dev(ctx, t.sh)
	}
	if p.url.From == "" {
		p.url.Value, p.url.From = defaultRedis, fromDefault
	}
	if p.tenant.From == "" {
		p.tenant.Value, p.tenant.From = defaultTenant, fromDefault
	}
	if err := store.CheckTenant(p.tenant.Value); err != nil {
		return p, fail(exitMisuse, fmt.Errorf("%s: %w", p.tenant.From, err))
	}
	return p, t.unlock(&p, c, file)
}

func flagged(value, name string) source { return source{Value: value, From: "flag --" + name} }

func (t *target) variable(name string) source {
	return source{Value: t.sh.Env(name), From: fromEnvironment(name)}
}

// pick returns the value of highest precedence; a value of the context has the precedence of its
// selection.
func (c chosen) pick(name string, flag, variable, said source) source {
	ranked := []source{flag, variable}
	if c.byFlag {
		ranked = []source{flag, said, variable}
	} else {
		ranked = append(ranked, said)
	}
	for _, s := range ranked {
		if s.Value != "" {
			s.Name = name
			return s
		}
	}
	return source{Name: name}
}

// choose returns the selected context, if any.
func (t *target) choose(file *configFile) (chosen, error) {
	var c chosen
	var name string
	switch {
	case t.context != "":
		name, c.from, c.byFlag = t.context, "flag --context", true
	case t.sh.Env("FLUNQ_CONTEXT") != "":
		name, c.from = t.sh.Env("FLUNQ_CONTEXT"), fromEnvironment("FLUNQ_CONTEXT")
	case file.current.text != "":
		name, c.from = file.current.text, file.current.place
	default:
		return c, nil
	}
	var err error
	c.configContext, err = file.context(name, c.from)
	return c, err
}

// says returns a value of the context with its position.
func (c chosen) says(v configText) source {
	return source{Value: v.text, From: fmt.Sprintf("context %s in %s", c.name, v.place)}
}

// dev uses the address that a running flunq dev has published, if it answers.
func (p *place) dev(ctx context.Context, sh *shell) {
	state, ok := readDevState(sh)
	if !ok || !state.answers(ctx) {
		return
	}
	from := fmt.Sprintf("flunq dev (pid %d)", state.PID)
	p.url.Value, p.url.From = state.URL, from
	if p.tenant.From == "" {
		p.tenant.Value, p.tenant.From = state.Tenant, from
	}
}

// unlock determines the password if the address has none. The password of a context is sent only to
// the Redis of that context, and flunq dev needs none.
func (t *target) unlock(p *place, c chosen, file *configFile) error {
	p.password.Name = "redis-password"
	variable := t.variable("REDIS_PASSWORD")
	ofContext := c.passwordFile.text != "" && p.url.From == c.says(c.url).From
	switch {
	case hasPassword(p.url.Value):
		p.password.From = "in the redis-url"
	case strings.HasPrefix(p.url.From, "flunq dev"):
	case ofContext && (c.byFlag || variable.Value == ""):
		password, err := c.password(file)
		p.password.Value, p.password.From = password, c.says(c.passwordFile).From
		return err
	case variable.Value != "":
		p.password.Value, p.password.From = variable.Value, variable.From
	}
	return nil
}

// completeContexts completes names of contexts.
func completeContexts(sh *shell) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		file, err := readConfig(sh)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, c := range file.contexts {
			names = append(names, c.name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// devPatience is how long a running flunq dev may take to answer.
const devPatience = 10 * time.Second

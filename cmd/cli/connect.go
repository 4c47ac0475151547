package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Target selects the Redis and the tenant of a command.
type Target struct {
	Sh                   *Shell
	url, Tenant, context string // from the flags; empty: from the environment or the configuration

	tenantless bool // the command does not act for one tenant
	ReadOnly   bool // the command writes nothing, so its scripts do not wait for replicas

	Secrets   string         // the file of the secrets that documents may need for their decisions; "": none
	Scheduler *SchedulerFile // may also name a Redis; may be nil
}

// TargetFlags adds the flags that select the engine.
func TargetFlags(c *cobra.Command, sh *Shell) *Target {
	t := &Target{Sh: sh}
	f := c.Flags()
	f.StringVar(&t.url, "redis-url", "", "use the Redis at `URL`: redis://host:port/db, rediss://…, redis-sentinel://…, redis-cluster://… or host:port")
	f.StringVar(&t.Tenant, "tenant", "", "act for the tenant `NAME`")
	f.StringVar(&t.context, "context", "", "use the context `NAME` of the configuration (see 'flunq config'), except what --redis-url and --tenant replace")
	CompleteFlag(c, "context", CompleteContexts(sh))
	CompleteFlag(c, "tenant", Complete(t, func(ctx context.Context, r *Remote) ([]string, error) { return r.Store.Tenants(ctx) }))
	return t
}

// AllTenantsFlag adds --all-tenants to a command.
func AllTenantsFlag(c *cobra.Command, at *bool, usage string) {
	c.Flags().BoolVarP(at, "all-tenants", "A", false, usage)
	Exclude(c, "all-tenants", "tenant")
}

// WithoutTenant hides --tenant, and refuses it, on a command that does not act for one tenant.
func (t *Target) WithoutTenant(c *cobra.Command) {
	t.tenantless = true
	_ = c.Flags().MarkHidden("tenant") // the flag exists
}

// Remote is a connection to the Redis of an engine.
type Remote struct {
	Redis       wire.Redis
	Store       *store.Store
	Tenant      string
	Definitions *definitions.Cache
	Examiner    *examine.Examiner
}

// Close closes the connection.
func (r *Remote) Close() { _ = r.Redis.Close() }

// Connect connects to the selected Redis. The flags take precedence over the environment, the
// configuration and a running flunq dev, in this order.
func (t *Target) Connect(ctx context.Context) (*Remote, error) {
	secrets, err := ReadSecrets(ctx, t.Sh, t.Secrets)
	if err != nil {
		return nil, err
	}
	replicas, err := confirmed(t.Sh)
	if err != nil {
		return nil, err
	}
	p, err := t.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	rdb, err := Dial(ctx, p.address())
	switch {
	case errors.Is(err, store.ErrUnreachable) && p.URL.From == fromDefault:
		return nil, fmt.Errorf("%w\nstart an engine with 'flunq dev', or name its Redis with --redis-url, REDIS_URL or a context (flunq config --help)", err)
	case err != nil:
		return nil, fmt.Errorf("%w (%s)", err, p.URL.From)
	}
	if !t.ReadOnly {
		store.ConfirmWrites(rdb, replicas)
	}
	st := store.New(rdb, store.Options{Secrets: secrets})
	defs := definitions.New(st, decide.Options{Secrets: secrets, Version: Version().Version})
	return &Remote{
		Redis: rdb, Store: st, Tenant: p.tenant.Value, Definitions: defs, Examiner: &examine.Examiner{Store: st, Definitions: defs},
	}, nil
}

// Now returns the time of the Redis that has the tenant; timers and ages depend on it. For all
// tenants of a cluster, it returns the time of any master that responds.
func (r *Remote) Now(ctx context.Context, allTenants bool) (time.Time, error) {
	if allTenants {
		return store.AnyNow(ctx, r.Store)
	}
	return r.Store.NowOf(ctx, r.Tenant)
}

// Run returns the RunE of a command that needs a connection.
func (t *Target) Run(run func(ctx context.Context, r *Remote, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		r, err := t.Connect(c.Context())
		if err != nil {
			return err
		}
		defer r.Close()
		if err := run(c.Context(), r, args); err != nil {
			return err
		}
		if all := c.Flags().Lookup("all-tenants"); t.tenantless || all != nil && all.Changed {
			return nil
		}
		if others, err := r.OtherTenants(c.Context()); err == nil && len(others) > 0 {
			t.Sh.Hint("tenant %s is not registered; registered: %s", r.Tenant, ShortList(others))
		}
		return nil
	}
}

// OtherTenants returns the registered tenants if that of the command is not among them: its name may
// be wrong or missing.
func (r *Remote) OtherTenants(ctx context.Context) ([]string, error) {
	known, err := r.Redis.SIsMember(ctx, r.Store.Keys().Tenants(), r.Tenant).Result()
	if known || err != nil {
		return nil, err
	}
	return r.Store.Tenants(ctx)
}

// RunAt is like Run, and also passes the time of Remote.Now for one tenant.
func (t *Target) RunAt(run func(ctx context.Context, r *Remote, now time.Time, args []string) error) func(*cobra.Command, []string) error {
	return t.Run(func(ctx context.Context, r *Remote, args []string) error {
		now, err := r.Now(ctx, false)
		if err != nil {
			return err
		}
		return run(ctx, r, now, args)
	})
}

// Dial connects to the Redis at an address. Its errors have exit codes.
func Dial(ctx context.Context, address string) (wire.Redis, error) {
	wire.Silence()
	rdb, err := store.Dial(ctx, address)
	switch {
	case errors.Is(err, store.ErrUnreachable):
		return nil, Fail(ExitUnreachable, err)
	case err != nil:
		return nil, Fail(ExitMisuse, err)
	}
	return rdb, nil
}

// Pause waits for d. It returns an error if ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return ctx.Err()
	}
}

// defaultRedis is the address of Redis if none is selected.
const defaultRedis = "redis://127.0.0.1:6379"

// location is the address of an engine. Each value knows its origin.
type location struct {
	URL, password, tenant, context source // the values as given
}

// address returns the URL including the password.
func (p location) address() string {
	if p.password.Value == "" {
		return p.URL.Value
	}
	address := p.URL.Value
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

// WithPassword returns an address of a flag with the password of REDIS_PASSWORD, unless it has one.
func WithPassword(sh *Shell, address string) string {
	if HasPassword(address) {
		return address
	}
	return location{URL: source{Value: address}, password: source{Value: sh.Env("REDIS_PASSWORD")}}.address()
}

// HasPassword reports whether an address contains a password.
func HasPassword(address string) bool {
	_, rest, _ := strings.Cut(address, "://")
	at := strings.LastIndex(rest, "@")
	return at >= 0 && strings.Contains(rest[:at], ":")
}

// chosen is the selected context. If a flag selected it, it takes precedence over the environment.
type chosen struct {
	configContext

	from   string
	byFlag bool
}

// Resolve returns the selected Redis and tenant.
func (t *Target) Resolve(ctx context.Context) (location, error) {
	file, err := ReadConfig(t.Sh)
	if err != nil {
		return location{}, err
	}
	c, err := t.choose(file)
	if err != nil {
		return location{}, err
	}
	p := location{context: source{Name: "context", Value: c.Name, From: c.from}}
	variable := t.variable("REDIS_URL")
	if f := t.Scheduler; variable.Value == "" && f != nil {
		variable = source{Value: f.redis.Text, From: f.redis.place}
	}
	p.URL = c.pick("redis-url", fromFlag(t.url, "redis-url"), variable, c.source(c.URL))
	if t.tenantless && t.Tenant != "" {
		return p, Misusef("--tenant %s: this command does not act for one tenant", t.Tenant)
	}
	p.tenant = c.pick("tenant", fromFlag(t.Tenant, "tenant"), t.variable("FLUNQ_TENANT"), c.source(c.Tenant))
	if p.URL.From == "" {
		p.dev(ctx, t.Sh)
	}
	if p.URL.From == "" {
		p.URL.Value, p.URL.From = defaultRedis, fromDefault
	}
	if p.tenant.From == "" {
		p.tenant.Value, p.tenant.From = DefaultTenant, fromDefault
	}
	if err := store.CheckTenant(p.tenant.Value); err != nil {
		return p, Fail(ExitMisuse, fmt.Errorf("%s: %w", p.tenant.From, err))
	}
	err = t.setPassword(&p, c, file)
	return p, err
}

func fromFlag(value, name string) source { return source{Value: value, From: "flag --" + name} }

func (t *Target) variable(name string) source {
	return source{Value: t.Sh.Env(name), From: fromEnvironment(name)}
}

// pick returns the value with the highest precedence.
func (c chosen) pick(name string, flag, variable, ofContext source) source {
	ranked := []source{flag, variable, ofContext}
	if c.byFlag {
		ranked = []source{flag, ofContext, variable}
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
func (t *Target) choose(file *configFile) (chosen, error) {
	var c chosen
	var name string
	switch {
	case t.context != "":
		name, c.from, c.byFlag = t.context, "flag --context", true
	case t.Sh.Env("FLUNQ_CONTEXT") != "":
		name, c.from = t.Sh.Env("FLUNQ_CONTEXT"), fromEnvironment("FLUNQ_CONTEXT")
	case file.Current.Text != "":
		name, c.from = file.Current.Text, file.Current.place
	default:
		return c, nil
	}
	var err error
	c.configContext, err = file.Context(name, c.from)
	return c, err
}

// source returns a value of the context with its position.
func (c chosen) source(v configText) source {
	return source{Value: v.Text, From: fmt.Sprintf("context %s in %s", c.Name, v.place)}
}

// dev uses the address published by flunq dev, if that process still responds.
func (p *location) dev(ctx context.Context, sh *Shell) {
	state, ok := ReadDevState(sh)
	if !ok || !state.Answers(ctx) {
		return
	}
	from := fmt.Sprintf("flunq dev (pid %d)", state.PID)
	p.URL.Value, p.URL.From = state.URL, from
	if p.tenant.From == "" {
		p.tenant.Value, p.tenant.From = state.Tenant, from
	}
}

// setPassword sets the password if the address has none. A context's password is sent only to the
// Redis of that context; flunq dev needs none.
func (t *Target) setPassword(p *location, c chosen, file *configFile) error {
	p.password.Name = "redis-password"
	variable := t.variable("REDIS_PASSWORD")
	if f := t.Scheduler; variable.Value == "" && f != nil && p.URL.From == f.redis.place {
		variable = source{Value: f.password.Text, From: f.password.place}
	}
	ofContext := c.passwordFile.Text != "" && p.URL.From == c.source(c.URL).From
	switch {
	case HasPassword(p.URL.Value):
		p.password.From = "in the redis-url"
	case strings.HasPrefix(p.URL.From, "flunq dev"):
	case ofContext && (c.byFlag || variable.Value == ""):
		password, err := c.password(file)
		p.password.Value, p.password.From = password, c.source(c.passwordFile).From
		return err
	case variable.Value != "":
		p.password.Value, p.password.From = variable.Value, variable.From
	}
	return nil
}

// CompleteContexts completes names of contexts.
func CompleteContexts(sh *Shell) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		file, err := ReadConfig(sh)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, c := range file.Contexts {
			names = append(names, c.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// DefaultTenant is the tenant of a run that does not name one.
const DefaultTenant = "default"

// BadID turns an error about a malformed id into a misuse error.
func BadID(err error) error {
	if errors.Is(err, store.ErrName) {
		return Fail(ExitMisuse, err)
	}
	return err
}

// CompletionTimeout is how long a completion may take.
const CompletionTimeout = 2 * time.Second

// ProcessName returns a name that is unique on a Redis.
func ProcessName() string {
	host, _ := os.Hostname() // without one, the random part is enough
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6]))
}

// RedactedURL returns an address without its password, even if the address has no scheme.
func RedactedURL(address string) string {
	if !strings.Contains(address, "://") {
		address = "redis://" + address
	}
	return store.Redacted(address)
}

package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// The consumer groups of the services.
const (
	WorkerGroup   = "worker-service"
	ExecutorGroup = "executor-service"
	TimerGroup    = "timer-service"
)

// ErrName is wrapped by errors about names that must not become part of a key.
var ErrName = errors.New("invalid name")

// CheckTenant says what is wrong with the name of a tenant.
func CheckTenant(name string) error {
	if len(name) > 63 || !plainName(name) || name != strings.ToLower(name) {
		return fmt.Errorf("%w: tenant %q, want [a-z0-9][a-z0-9._-]{0,62}", ErrName, name)
	}
	return nil
}

// Private reports whether a tenant is private: only processes that name it work for it,
// and none that take up all tenants that they find.
func Private(tenant string) bool { return strings.HasPrefix(tenant, PrivatePrefix) }

// PrivatePrefix begins the names of private tenants.
const PrivatePrefix = "private."

// CheckExecution says what is wrong with an id that somebody gives to an
// execution; those of children are longer.
func CheckExecution(id string) error {
	if len(id) > 200 || !plainName(id) {
		return fmt.Errorf("%w: execution %q, want [a-zA-Z0-9][a-zA-Z0-9._-]{0,199}", ErrName, id)
	}
	return nil
}

// plainName reports whether a name has letters, digits, and behind the first
// also dots, dashes and underscores.
func plainName(name string) bool {
	for i, c := range []byte(name) {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || strings.IndexByte("._-", c) < 0) {
			return false
		}
	}
	return name != ""
}

// checkExecution says what is wrong with a tenant, or with the id of an execution
// of it: one must not be named like the history of another.
func checkExecution(tenant, id string) error {
	if id == "" || strings.HasSuffix(id, historySuffix) {
		return fmt.Errorf("%w: execution %q, want a text that does not end in %s", ErrName, id, historySuffix)
	}
	return CheckTenant(tenant)
}

const historySuffix = ":history"

// Keys builds the names of all keys. On a Redis Cluster they carry a hash tag around
// the tenant, so that every script stays in one slot.
type Keys struct{ cluster bool }

// Tenant is how the keys of a tenant begin, before a colon.
func (k Keys) Tenant(name string) string {
	if k.cluster {
		name = "{" + name + "}"
	}
	return "tenant:" + name
}

// Stream is the stream of a tenant's events.
func (k Keys) Stream(tenant string) string { return k.Tenant(tenant) + ":events" }

// commands is the sorted set of operators' commands that workers may not have read.
func (k Keys) commands(tenant string) string { return k.Stream(tenant) + ":commands" }

// DeadLetters is the stream of a tenant's dead letters.
func (k Keys) DeadLetters(tenant string) string { return k.Tenant(tenant) + ":events:dlq" }

// crashes is the hash of how many consumers have died with an entry of the stream.
func (k Keys) crashes(tenant string) string { return k.Tenant(tenant) + ":events:deaths" }

// Timers is the sorted set of the timers that are set, by their due time in Unix
// milliseconds.
func (k Keys) Timers(tenant string) string {
	if k.cluster {
		return "flunq:timers:{" + tenant + "}"
	}
	return "flunq:timers:all"
}

// timerKeys is the hash of which timer is the one of a key, and forgottenKeys
// the ZSET of the keys there that have none any more.
func (k Keys) timerKeys(tenant string) string {
	if k.cluster {
		return "flunq:timers:keys:{" + tenant + "}"
	}
	return "flunq:timers:keys"
}

func (k Keys) forgottenKeys(tenant string) string { return k.timerKeys(tenant) + ":forgotten" }

// askedTimers is the ZSET of the timers that other programs have asked for lately, by their
// hashes.
func (k Keys) askedTimers(tenant string) string { return k.timerKeys(tenant) + ":asked" }

// Definition is the hash of one workflow's versions.
func (k Keys) Definition(tenant, id string) string {
	return k.Tenant(tenant) + ":workflow:definition:" + id
}

// Execution is the hash of an execution.
func (k Keys) Execution(tenant, id string) string { return k.Tenant(tenant) + ":execution:" + id }
func (k Keys) history(tenant, id string) string   { return k.Execution(tenant, id) + historySuffix }

// Executions is an index of executions: the sorted set of the ids of those that are open, or
// that ended with a status, by when they were created in Unix milliseconds.
func (k Keys) Executions(tenant, index string) string {
	return k.Tenant(tenant) + ":executions:" + index
}

// kept is how long finished executions are kept, while somebody removes others.
func (k Keys) kept(tenant string) string { return k.Tenant(tenant) + ":executions:kept" }

// Workflows is the set of the ids of definitions.
func (k Keys) Workflows(tenant string) string { return k.Tenant(tenant) + ":workflows" }

// Tenants is the set of the names of tenants.
func (Keys) Tenants() string { return "flunq:tenants" }

// processes is the hash of the processes that run services.
func (Keys) processes() string { return ProcessesKey }

// turn exists for as long as nobody else is to do something that one process does for all.
func (Keys) turn(what string) string { return "flunq:turn:" + what }

// ProcessesKey is the key of the hash of processes.
const ProcessesKey = "flunq:processes"

// descendants is the set of open executions below one that no other has begun.
func (k Keys) descendants(tenant, root string) string {
	return k.Tenant(tenant) + ":descendants:" + root
}

// Listeners is the set of executions that wait for events of a type.
func (k Keys) Listeners(tenant, eventType string) string {
	return k.Tenant(tenant) + ":listen:" + eventType
}

// keysOfTenant is what each step needs of a tenant: the names of its keys, made once.
type keysOfTenant struct {
	stream, timers, timerKeys, forgottenKeys, askedTimers string
	open, faulted, completed, cancelled                   string // indexes of executions
	executions                                            string // what the names of executions begin with

	known atomic.Bool // the Store has made the tenant known
}

// tenantKeyCache are those of the tenants that a Store has met.
type tenantKeyCache struct {
	mu    sync.RWMutex
	known map[string]*keysOfTenant
}

// keysFor is that of a tenant.
func (s *Store) keysFor(tenant string) *keysOfTenant {
	s.tenantKeyCache.mu.RLock()
	h := s.tenantKeyCache.known[tenant]
	s.tenantKeyCache.mu.RUnlock()
	if h == nil {
		h = s.keys.keysFor(tenant)
		s.tenantKeyCache.add(tenant, h)
	}
	return h
}

func (h *tenantKeyCache) add(tenant string, one *keysOfTenant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[string]*keysOfTenant{}
	}
	h.known[tenant] = one
}

// keysFor makes the names of a tenant's keys.
func (k Keys) keysFor(tenant string) *keysOfTenant {
	return &keysOfTenant{
		stream: k.Stream(tenant), timers: k.Timers(tenant), timerKeys: k.timerKeys(tenant), forgottenKeys: k.forgottenKeys(tenant), askedTimers: k.askedTimers(tenant),
		open: k.Executions(tenant, openIndex), faulted: k.Executions(tenant, faultedIndex),
		completed: k.Executions(tenant, completedIndex), cancelled: k.Executions(tenant, cancelledIndex),
		executions: k.Execution(tenant, ""),
	}
}

// execution is the names of an execution's keys, cut from one text.
func (h *keysOfTenant) execution(id string) (execution, history string) {
	history = h.executions + id + historySuffix
	return history[:len(history)-len(historySuffix)], history
}

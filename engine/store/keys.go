package store

import (
	"errors"
	"fmt"
	"strings"
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
		deadLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !deadLetter && (i == 0 || strings.IndexByte("._-", c) < 0) {
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

// keys builds the names of keys. On a Redis Cluster they carry a hash tag around
// the tenant, so that every script stays in one slot.
type keys struct{ cluster bool }

func (k keys) tenant(name string) string {
	if k.cluster {
		name = "{" + name + "}"
	}
	return "tenant:" + name
}

func (k keys) stream(tenant string) string { return k.tenant(tenant) + ":events" }
func (k keys) dead(tenant string) string   { return k.tenant(tenant) + ":events:dlq" }

// crashes is the hash of how many consumers have died with an entry of the stream.
func (k keys) crashes(tenant string) string { return k.tenant(tenant) + ":events:deaths" }

func (k keys) timers(tenant string) string {
	if k.cluster {
		return "flunq:timers:{" + tenant + "}"
	}
	return "flunq:timers:all"
}

// timerKeys is the hash of which timer is the one of a key, and forgottenKeys
// the ZSET of the keys there that have none any more.
func (k keys) timerKeys(tenant string) string {
	if k.cluster {
		return "flunq:timers:keys:{" + tenant + "}"
	}
	return "flunq:timers:keys"
}

func (k keys) forgottenKeys(tenant string) string { return k.timerKeys(tenant) + ":forgotten" }

// askedTimers is the ZSET of the timers that other programs have asked for lately, by their
// hashes.
func (k keys) askedTimers(tenant string) string { return k.timerKeys(tenant) + ":asked" }

func (k keys) definition(tenant, id string) string {
	return k.tenant(tenant) + ":workflow:definition:" + id
}

func (k keys) execution(tenant, id string) string { return k.tenant(tenant) + ":execution:" + id }
func (k keys) history(tenant, id string) string   { return k.execution(tenant, id) + historySuffix }

// executions is an index: the ids of the executions on a shelf, by when they were
// created in Unix milliseconds.
func (k keys) executions(tenant, index string) string {
	return k.tenant(tenant) + ":executions:" + index
}

// kept is how long finished executions are kept, while somebody removes others.
func (k keys) kept(tenant string) string { return k.tenant(tenant) + ":executions:kept" }

// workflows is the set of the ids of definitions.
func (k keys) workflows(tenant string) string { return k.tenant(tenant) + ":workflows" }

// tenants is the set of the names of tenants.
func (keys) tenants() string { return "flunq:tenants" }

// processes is the hash of the processes that run services.
func (keys) processes() string { return ProcessesKey }

// turn exists for as long as nobody else is to do something that one process does for all.
func (keys) turn(what string) string { return "flunq:turn:" + what }

// ProcessesKey is the key of the hash of processes.
const ProcessesKey = "flunq:processes"

// descendants is the set of open executions below one that no other has begun.
func (k keys) descendants(tenant, root string) string {
	return k.tenant(tenant) + ":descendants:" + root
}

// listeners is the set of executions that wait for events of a type.
func (k keys) listeners(tenant, eventType string) string {
	return k.tenant(tenant) + ":listen:" + eventType
}

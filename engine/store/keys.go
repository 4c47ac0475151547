package store

import (
	"errors"
	"fmt"
	"regexp"
)

// The consumer groups of the services.
const (
	WorkerGroup   = "worker-service"
	ExecutorGroup = "executor-service"
	TimerGroup    = "timer-service"
)

// ErrName is wrapped by errors about names that must not become part of a key.
var ErrName = errors.New("invalid name")

var tenantName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckTenant says what is wrong with the name of a tenant.
func CheckTenant(name string) error {
	if !tenantName.MatchString(name) {
		return fmt.Errorf("%w: tenant %q, want %s", ErrName, name, tenantName)
	}
	return nil
}

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

func (k keys) timers(tenant string) string {
	if k.cluster {
		return "flunq:timers:{" + tenant + "}"
	}
	return "flunq:timers:all"
}

func (k keys) definition(tenant, id string) string {
	return k.tenant(tenant) + ":workflow:definition:" + id
}

func (k keys) execution(tenant, id string) string { return k.tenant(tenant) + ":execution:" + id }
func (k keys) history(tenant, id string) string   { return k.execution(tenant, id) + ":history" }

// listeners is the set of executions that wait for events of a type.
func (k keys) listeners(tenant, eventType string) string {
	return k.tenant(tenant) + ":listen:" + eventType
}

package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
)

// The consumer groups of the services.
const (
	WorkerGroup   = "worker-service"
	ExecutorGroup = "executor-service"
	TimerGroup    = "timer-service"
)

// ServiceGroups returns the consumer groups of the services.
func ServiceGroups() []string { return []string{WorkerGroup, ExecutorGroup, TimerGroup} }

// BridgePrefix is the prefix of the names of the bridges' consumer groups, before that of the broker.
const BridgePrefix = "bridge-"

// ErrName is wrapped by errors about names that are not allowed in keys.
var ErrName = errors.New("invalid name")

// CheckTenant returns an error if a tenant's name is not allowed.
func CheckTenant(name string) error {
	if !event.TenantName(name) {
		return fmt.Errorf("%w: tenant %q, want [a-z0-9][a-z0-9._-]{0,62}", ErrName, name)
	}
	return nil
}

// Private reports whether a tenant is private: only processes that are configured with its name serve
// it, not those that discover tenants.
func Private(tenant string) bool { return strings.HasPrefix(tenant, PrivatePrefix) }

// PrivatePrefix is the prefix of the names of private tenants.
const PrivatePrefix = "private."

// CheckExecution returns an error if a client may not use an id for an execution. Ids of children are
// longer.
func CheckExecution(id string) error {
	if len(id) > 200 || !plainName(id) {
		return fmt.Errorf("%w: execution %q, want [a-zA-Z0-9][a-zA-Z0-9._-]{0,199}", ErrName, id)
	}
	return nil
}

// plainName reports whether a name consists of letters and digits and, after the first
// character, dots, dashes and underscores.
func plainName(name string) bool {
	for i, c := range []byte(name) {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || strings.IndexByte("._-", c) < 0) {
			return false
		}
	}
	return name != ""
}

// CheckIDs returns an error if the name of a tenant or the id of its execution is not allowed. An
// execution must not have the key of another one's history.
func CheckIDs(tenant, id string) error {
	if id == "" || strings.HasSuffix(id, historySuffix) {
		return fmt.Errorf("%w: execution %q, want an id that does not end in %s", ErrName, id, historySuffix)
	}
	return CheckTenant(tenant)
}

const historySuffix = ":history"

// Keys builds the names of all keys. On a Redis Cluster the tenant is a hash tag, so each
// script stays in one slot.
type Keys struct{ cluster bool }

// KeysOf returns the names of keys, on a Redis Cluster or on a single Redis.
func KeysOf(cluster bool) Keys { return Keys{cluster} }

// Tenant is the prefix of the keys of a tenant, without the colon.
func (k Keys) Tenant(name string) string {
	if k.cluster {
		name = "{" + name + "}"
	}
	return "tenant:" + name
}

// Stream is the stream of a tenant's events.
func (k Keys) Stream(tenant string) string { return k.Tenant(tenant) + ":events" }

// TenantOf returns the tenant of a Stream.
func (Keys) TenantOf(stream string) string {
	return strings.Trim(strings.TrimSuffix(strings.TrimPrefix(stream, "tenant:"), ":events"), "{}")
}

// Commands is the sorted set of operators' commands that workers may not have read.
func (k Keys) Commands(tenant string) string { return k.Stream(tenant) + ":commands" }

// DeadLetters is the stream of a tenant's dead letters.
func (k Keys) DeadLetters(tenant string) string { return k.Tenant(tenant) + ":events:dlq" }

// Inputs is the stream of observations of inputs, if they are recorded. It keeps about the last 10,000.
func (k Keys) Inputs(tenant string) string { return k.Tenant(tenant) + ":inputs" }

// Audit is the stream of operators' actions that no history records, such as removing executions. It
// keeps about the last 10,000 entries, with the fields action, subject and by.
func (k Keys) Audit(tenant string) string { return k.Tenant(tenant) + ":audit" }

// Crashes is the hash of the crash counts: how many consumers died with an entry, by entry.
func (k Keys) Crashes(tenant string) string { return k.Tenant(tenant) + ":events:deaths" }

// Timers is the sorted set of pending timers, by due time in Unix seconds.
func (k Keys) Timers(tenant string) string {
	if k.cluster {
		return "flunq:timers:{" + tenant + "}"
	}
	return "flunq:timers:all"
}

// TimerKeys is the hash of the current timer of each timer key.
func (k Keys) TimerKeys(tenant string) string {
	if k.cluster {
		return "flunq:timers:keys:{" + tenant + "}"
	}
	return "flunq:timers:keys"
}

// ForgottenKeys is the sorted set of keys of timers that are gone.
func (k Keys) ForgottenKeys(tenant string) string { return k.TimerKeys(tenant) + ":forgotten" }

// AskedTimers is the sorted set of hashes of timers that other programs have requested recently.
func (k Keys) AskedTimers(tenant string) string { return k.TimerKeys(tenant) + ":asked" }

// Definition is the hash of one workflow's versions.
func (k Keys) Definition(tenant, id string) string {
	return k.Tenant(tenant) + ":workflow:definition:" + id
}

// Execution is the hash of an execution.
func (k Keys) Execution(tenant, id string) string { return k.Tenant(tenant) + ":execution:" + id }

// History is the stream of an execution's events.
func (k Keys) History(tenant, id string) string { return k.Execution(tenant, id) + historySuffix }

// CutHistory returns the key of the execution if key is that of a history, and any other key
// unchanged.
func CutHistory(key string) (execution string, ok bool) { return strings.CutSuffix(key, historySuffix) }

// ExecutionOf returns the execution that a key belongs to.
func (k Keys) ExecutionOf(key string) (tenant, id string, ok bool) {
	tenant, id, _ = strings.Cut(strings.TrimPrefix(key, "tenant:"), ":execution:")
	tenant = strings.Trim(tenant, "{}")
	return tenant, id, key == k.Execution(tenant, id)
}

// OtherStreams is the pattern of the streams of a tenant, or of all tenants ("*"), in the other key
// scheme of flunq.io deployments, in which each workflow has its own stream.
func OtherStreams(tenant string) string { return "tenant:" + tenant + ":workflow:*:events" }

// OtherStream returns the tenant of a stream in that scheme.
func OtherStream(key string) (tenant string, ok bool) {
	tenant, _, ok = strings.Cut(strings.TrimPrefix(key, "tenant:"), ":workflow:")
	return tenant, ok
}

// Positions is the hash of the positions of the last records taken from a broker, by partition.
func (k Keys) Positions(tenant string) string { return k.Tenant(tenant) + ":bridge" }

// BridgeOwner is the key with the name of the process that is the bridge of a tenant.
func (k Keys) BridgeOwner(tenant string) string { return k.Positions(tenant) + ":owner" }

// Clustered reports whether the keys are for a Redis Cluster, where each tenant has its own timers.
func (k Keys) Clustered() bool { return k.cluster }

// Index is the index of the executions with a status.
func (k Keys) Index(tenant, status string) string { return k.Executions(tenant, indexOf(status)) }

// Executions is an index of executions: the sorted set of the ids of open ones, or of those that
// ended with a status, by creation time in Unix milliseconds.
func (k Keys) Executions(tenant, index string) string {
	return k.Tenant(tenant) + ":executions:" + index
}

// kept holds the retention in force, in text form. It expires when no process enforces it.
func (k Keys) kept(tenant string) string { return k.Tenant(tenant) + ":executions:kept" }

// Workflows is the set of the ids of definitions.
func (k Keys) Workflows(tenant string) string { return k.Tenant(tenant) + ":workflows" }

// Tenants is the set of the names of tenants.
func (Keys) Tenants() string { return "flunq:tenants" }

// Processes is the hash of the processes that run services.
func (Keys) Processes() string { return ProcessesKey }

// Turn exists during the period in which one process does something on behalf of all.
func (Keys) Turn(what string) string { return "flunq:turn:" + what }

// ProcessesKey is the key of the hash of processes.
const ProcessesKey = "flunq:processes"

// descendants is the set of open executions below a root.
func (k Keys) descendants(tenant, root string) string {
	return k.Tenant(tenant) + ":descendants:" + root
}

// Listeners is the set of executions that wait for events of a type.
func (k Keys) Listeners(tenant, eventType string) string {
	return k.Tenant(tenant) + ":listen:" + eventType
}

// Tombstone is the field of an execution that marks a timer as cancelled before it was set.
func Tombstone(t event.Timer) string {
	return "gone:" + t.TaskID + " " + string(t.Kind) + " " + t.Key + " " + strconv.FormatInt(t.FireAt.UnixNano(), 10)
}

// TimerIdentity returns the field of a timer in the hash of timer keys. It depends on the timer's
// key, or, without a key, on the timer as it was before an operator moved it.
func TimerIdentity(t event.Timer) string {
	switch {
	case t.ForOne():
		return "k" + string(event.Encode([]string{t.Tenant, t.Execution, "", t.Key}))
	case t.Keyed():
		return "k" + string(event.Encode([]string{t.Tenant, t.Execution, t.TaskID, t.Key}))
	default:
		return "m" + string(event.Encode([]string{t.Tenant, t.Execution, Tombstone(t)}))
	}
}

// TimerNote returns the field of an execution that concerns a timer: its Tombstone or, for an input,
// "input:" and the identity. The latter holds the member of the pending input, so the end of
// the execution cancels it.
func TimerNote(t event.Timer) string {
	if t.Kind == event.InputTimer {
		return InputNote + TimerIdentity(t)
	}
	return Tombstone(t)
}

// InputNote is the prefix of the field of an execution that holds a pending input.
const InputNote = "input:"

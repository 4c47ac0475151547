// Package registry keeps the workflows that are registered for a tenant: the sources of their
// documents, by hash, and the hash of each version.
package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	defineScript   = scripts.New("define")
	undefineScript = scripts.New("undefine")
)

// Registry is the registered workflows of all tenants.
type Registry struct {
	store *store.Store
	rdb   *wire.Client
	keys  store.Keys
}

// New returns the registry of a Store.
func New(s *store.Store) Registry { return Registry{store: s, rdb: s.Redis(), keys: s.Keys()} }

// Define stores the source of a definition under its version, and returns its hash. Running
// executions keep the source that they began with.
func (r Registry) Define(ctx context.Context, tenant, id, version, text string) (hash string, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return "", err
	}
	if err := r.store.AddTenant(ctx, tenant); err != nil {
		return "", err
	}
	hash = Hash(text)
	key := r.keys.Definition(tenant, id)
	for {
		latest, err := r.field(ctx, key, "latest")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
		args := []any{latest, id, "text:" + hash, text, "version:" + version, hash}
		if latest == "" || newer(version, latest) >= 0 {
			args = append(args, "latest", version)
		}
		done, err := defineScript().Run(ctx, r.rdb, []string{key, r.keys.Workflows(tenant)}, args...).Int()
		if err != nil || done == 1 {
			return hash, store.Failed("define "+id, err)
		}
	}
}

// Undefine removes a version of a workflow. It returns false if the version is not registered.
// Running executions keep the source that they began with, until RemoveSources.
func (r Registry) Undefine(ctx context.Context, tenant, id, version string) (bool, error) {
	for {
		found, err := r.Versions(ctx, tenant, id)
		if err != nil || len(found) == 0 {
			return false, err
		}
		hash, next := "", ""
		for _, v := range found[0].Versions { // the newest first
			if v.Version == version {
				hash = v.Hash
			} else if next == "" {
				next = v.Version
			}
		}
		if hash == "" {
			return false, nil
		}
		done, err := r.undefine(ctx, tenant, id, version, hash, found[0].Latest, next)
		if err != nil || done {
			return done, err
		}
	}
}

// RemoveSources removes sources of a workflow's definitions, by their hashes. It keeps those of
// registered versions. No execution may be using the others.
func (r Registry) RemoveSources(ctx context.Context, tenant, id string, hashes ...string) error {
	args := append([]string{"", "", "", ""}, hashes...)
	_, err := r.undefine(ctx, tenant, id, args...)
	return err
}

func (r Registry) undefine(ctx context.Context, tenant, id string, args ...string) (bool, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return false, err
	}
	keys := []string{r.keys.Definition(tenant, id), r.keys.Workflows(tenant)}
	n, err := undefineScript().Run(ctx, r.rdb, keys, append([]any{id}, wire.Args(args)...)...).Int()
	return n == 1, store.Failed("remove workflow "+id, err)
}

// SourceHashes returns the hashes of all sources of a workflow's definitions, including those without a
// registered version.
func (r Registry) SourceHashes(ctx context.Context, tenant, id string) (out []string, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, err
	}
	names, err := r.rdb.HKeys(ctx, r.keys.Definition(tenant, id)).Result()
	for _, name := range names {
		if hash, ok := strings.CutPrefix(name, "text:"); ok {
			out = append(out, hash)
		}
	}
	return out, store.Failed("read the sources of workflow "+id, err)
}

// Hash returns the hash that identifies a definition's source.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Definition returns the source of a definition; version "" or "latest" is the newest.
func (r Registry) Definition(ctx context.Context, tenant, id, version string) (hash, text string, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return "", "", err
	}
	key := r.keys.Definition(tenant, id)
	if version == "" || version == "latest" {
		if version, err = r.field(ctx, key, "latest"); err != nil {
			return "", "", fmt.Errorf("workflow %s: %w", id, err)
		}
	}
	if hash, err = r.field(ctx, key, "version:"+version); err != nil {
		return "", "", fmt.Errorf("workflow %s:%s: %w", id, version, err)
	}
	text, err = r.DefinitionByHash(ctx, tenant, id, hash)
	return hash, text, err
}

// DefinitionByHash returns the source of a definition by its hash.
func (r Registry) DefinitionByHash(ctx context.Context, tenant, id, hash string) (text string, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return "", err
	}
	if text, err = r.field(ctx, r.keys.Definition(tenant, id), "text:"+hash); err != nil {
		return "", fmt.Errorf("text %.8s of workflow %s: %w", hash, id, err)
	}
	return text, nil
}

// Workflow is a registered workflow.
type Workflow struct {
	ID       string // "namespace.name"
	Latest   string
	Versions []Version // the newest first
}

// Version is one version of a Workflow.
type Version struct{ Version, Hash string }

// IDs returns the ids of the registered workflows of a tenant, sorted.
func (r Registry) IDs(ctx context.Context, tenant string) ([]string, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, err
	}
	ids, err := r.store.Members(ctx, r.keys.Workflows(tenant))
	return ids, store.Failed("list the workflows", err)
}

// Workflows returns the workflows registered for a tenant, in the order of their ids.
func (r Registry) Workflows(ctx context.Context, tenant string) ([]Workflow, error) {
	ids, err := r.IDs(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var out []Workflow
	for page := range slices.Chunk(ids, workflowsAtOnce) {
		found, err := r.Versions(ctx, tenant, page...)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// workflowsAtOnce is the number of workflows read in one round trip.
const workflowsAtOnce = 100

// Versions reads the versions of workflows. It leaves out unregistered workflows.
func (r Registry) Versions(ctx context.Context, tenant string, ids ...string) ([]Workflow, error) {
	if err := store.CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := r.rdb.Pipeline()
	names := make([]*redis.StringSliceCmd, len(ids))
	for i, id := range ids {
		names[i] = pipe.HKeys(ctx, r.keys.Definition(tenant, id))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, store.Failed("read the versions of workflows", err)
	}
	const prefix = "version:"
	fields, values := make([][]string, len(ids)), make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		versions := slices.DeleteFunc(names[i].Val(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		fields[i] = append([]string{"latest"}, versions...)
		values[i] = pipe.HMGet(ctx, r.keys.Definition(tenant, id), fields[i]...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, store.Failed("read the versions of workflows", err)
	}
	var out []Workflow
	for i, id := range ids {
		found := wire.List(values[i].Val())
		w := Workflow{ID: id, Latest: found.Text(0)}
		for n, name := range fields[i][1:] {
			w.Versions = append(w.Versions, Version{strings.TrimPrefix(name, prefix), found.Text(n + 1)})
		}
		if len(w.Versions) > 0 {
			slices.SortFunc(w.Versions, func(a, b Version) int { return newer(b.Version, a.Version) })
			out = append(out, w)
		}
	}
	return out, nil
}

func (r Registry) field(ctx context.Context, key, name string) (string, error) {
	value := redis.NewStringCmd(ctx, "hget", &key, &name)
	switch err := r.rdb.Process(ctx, value); {
	case err == nil:
		return value.Val(), nil
	case errors.Is(err, redis.Nil):
		return "", store.ErrNotFound
	default:
		return "", store.Failed("read "+key, err)
	}
}

// newer compares semantic versions: positive if a is newer than b. A release is newer than its
// pre-releases, and build metadata is ignored.
func newer(a, b string) int {
	a, _, _ = strings.Cut(a, "+")
	b, _, _ = strings.Cut(b, "+")
	coreA, preA, isPreA := strings.Cut(a, "-")
	coreB, preB, isPreB := strings.Cut(b, "-")
	if c := slices.CompareFunc(strings.Split(coreA, "."), strings.Split(coreB, "."), identifiers); c != 0 {
		return c
	}
	switch {
	case isPreA && !isPreB:
		return -1
	case !isPreA && isPreB:
		return 1
	default:
		return slices.CompareFunc(strings.Split(preA, "."), strings.Split(preB, "."), identifiers)
	}
}

// identifiers compares two identifiers of pre-releases: numbers numerically, and before words.
func identifiers(a, b string) int {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return cmp.Compare(x, y)
	case errA == nil && errB != nil:
		return -1
	case errA != nil && errB == nil:
		return 1
	default:
		return strings.Compare(a, b)
	}
}

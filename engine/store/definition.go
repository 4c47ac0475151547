package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// Define stores the text of a definition under its version, and returns its hash. Executions
// that have begun keep the text with which they began.
func (s *Store) Define(ctx context.Context, tenant, id, version, text string) (hash string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return "", err
	}
	if err := s.AddTenant(ctx, tenant); err != nil {
		return "", err
	}
	hash = DefinitionHash(text)
	key := s.keys.Definition(tenant, id)
	for {
		latest, err := s.field(ctx, key, "latest")
		if err != nil && !errors.Is(err, ErrNotFound) {
			return "", err
		}
		const keys, most = 2, 10 // of these and all texts
		l := wire.TextList{List: make([]any, wire.BeforeKeys, wire.BeforeKeys+most), Texts: make([]string, 0, most)}
		l.Add(key, s.keys.workflows(tenant), latest, id, "text:"+hash, text, "version:"+version, hash)
		if latest == "" || newer(version, latest) >= 0 {
			l.Add("latest", version)
		}
		done, err := s.rdb.Call(ctx, defineScript, keys, l.List).Int()
		if err != nil || done == 1 {
			return hash, Failed("define "+id, err)
		}
	}
}

// Undefine removes a version of a workflow. It reports false if the version is not registered.
// Executions that have begun keep the text with which they began, until RemoveTexts.
func (s *Store) Undefine(ctx context.Context, tenant, id, version string) (bool, error) {
	for {
		found, err := s.Versions(ctx, tenant, id)
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
		done, err := s.undefine(ctx, tenant, id, version, hash, found[0].Latest, next)
		if err != nil || done {
			return done, err
		}
	}
}

// RemoveTexts removes texts of a workflow's definitions, by their hashes. It keeps those that a
// registered version has. No execution may use them.
func (s *Store) RemoveTexts(ctx context.Context, tenant, id string, hashes ...string) error {
	args := append([]string{"", "", "", ""}, hashes...)
	_, err := s.undefine(ctx, tenant, id, args...)
	return err
}

func (s *Store) undefine(ctx context.Context, tenant, id string, args ...string) (bool, error) {
	if err := CheckTenant(tenant); err != nil {
		return false, err
	}
	all := []any{id}
	for _, arg := range args {
		all = append(all, arg)
	}
	n, err := undefineScript.Run(ctx, s.rdb, []string{s.keys.Definition(tenant, id), s.keys.workflows(tenant)}, all...).Int()
	return n == 1, Failed("remove workflow "+id, err)
}

// TextsOf returns the hashes of all texts of a workflow's definitions, whether a version has
// them or not.
func (s *Store) TextsOf(ctx context.Context, tenant, id string) (out []string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	names, err := s.rdb.HKeys(ctx, s.keys.Definition(tenant, id)).Result()
	for _, name := range names {
		if hash, ok := strings.CutPrefix(name, "text:"); ok {
			out = append(out, hash)
		}
	}
	return out, Failed("read the texts of workflow "+id, err)
}

// DefinitionHash returns the hash that identifies a definition's text.
func DefinitionHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Definition returns the text of a definition; version "" or "latest" is the newest.
func (s *Store) Definition(ctx context.Context, tenant, id, version string) (hash, text string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return "", "", err
	}
	key := s.keys.Definition(tenant, id)
	if version == "" || version == "latest" {
		if version, err = s.field(ctx, key, "latest"); err != nil {
			return "", "", fmt.Errorf("workflow %s: %w", id, err)
		}
	}
	if hash, err = s.field(ctx, key, "version:"+version); err != nil {
		return "", "", fmt.Errorf("workflow %s:%s: %w", id, version, err)
	}
	text, err = s.DefinitionBySHA(ctx, tenant, id, hash)
	return hash, text, err
}

// DefinitionBySHA returns the text of a definition by its hash.
func (s *Store) DefinitionBySHA(ctx context.Context, tenant, id, hash string) (text string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return "", err
	}
	if text, err = s.field(ctx, s.keys.Definition(tenant, id), "text:"+hash); err != nil {
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

// Workflows returns the workflows registered for a tenant, in the order of their ids.
func (s *Store) Workflows(ctx context.Context, tenant string) ([]Workflow, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	ids, err := s.members(ctx, s.keys.workflows(tenant))
	if err != nil {
		return nil, Failed("list the workflows", err)
	}
	var out []Workflow
	for page := range slices.Chunk(ids, workflowsAtOnce) {
		found, err := s.Versions(ctx, tenant, page...)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// workflowsAtOnce is how many workflows are read in one round trip.
const workflowsAtOnce = 100

// members reads a set page by page, sorted.
func (s *Store) members(ctx context.Context, key string) (all []string, err error) {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var page []string
		if page, cursor, err = s.rdb.SScan(ctx, key, cursor, "", ScanCount).Result(); err != nil {
			return nil, err //nolint:wrapcheck // the caller says what it was for
		}
		all = append(all, page...)
	}
	return compacted(all), nil
}

// Versions reads the versions of workflows. It leaves out unregistered workflows.
func (s *Store) Versions(ctx context.Context, tenant string, ids ...string) ([]Workflow, error) {
	if err := CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := s.rdb.Pipeline()
	names := make([]*redis.StringSliceCmd, len(ids))
	for i, id := range ids {
		names[i] = pipe.HKeys(ctx, s.keys.Definition(tenant, id))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, Failed("read the versions of workflows", err)
	}
	const prefix = "version:"
	values := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		kept := slices.DeleteFunc(names[i].Val(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
		names[i].SetVal(kept)
		values[i] = pipe.HMGet(ctx, s.keys.Definition(tenant, id), append([]string{"latest"}, kept...)...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, Failed("read the versions of workflows", err)
	}
	var out []Workflow
	for i, id := range ids {
		w := Workflow{ID: id}
		w.Latest, _ = values[i].Val()[0].(string) // nil if there is none
		for n, name := range names[i].Val() {
			hash, _ := values[i].Val()[n+1].(string)
			w.Versions = append(w.Versions, Version{strings.TrimPrefix(name, prefix), hash})
		}
		if len(w.Versions) > 0 {
			slices.SortFunc(w.Versions, func(a, b Version) int { return newer(b.Version, a.Version) })
			out = append(out, w)
		}
	}
	return out, nil
}

func (s *Store) field(ctx context.Context, key, name string) (string, error) {
	value := redis.NewStringCmd(ctx, "hget", &key, &name)
	switch err := s.rdb.Process(ctx, value); {
	case err == nil:
		return value.Val(), nil
	case errors.Is(err, redis.Nil):
		return "", ErrNotFound
	default:
		return "", Failed("read "+key, err)
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
	case errA == nil && errB == nil && x != y:
		if x < y {
			return -1
		}
		return 1
	case errA == nil && errB != nil:
		return -1
	case errA != nil && errB == nil:
		return 1
	default:
		return strings.Compare(a, b)
	}
}

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
)

// Define keeps the text of a definition under its version, and says its hash.
// Executions that have begun keep the text that they began with.
func (s *Store) Define(ctx context.Context, tenant, id, version, text string) (hash string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	hash = hex.EncodeToString(sum[:])
	key := s.keys.definition(tenant, id)
	for {
		latest, err := s.field(ctx, key, "latest")
		if err != nil && !errors.Is(err, ErrNotFound) {
			return "", err
		}
		args := []any{latest, "text:" + hash, text, "version:" + version, hash}
		if latest == "" || newer(version, latest) >= 0 {
			args = append(args, "latest", version)
		}
		done, err := defineScript.Run(ctx, s.rdb, []string{key}, args...).Int()
		if err != nil || done == 1 {
			return hash, failed("define "+id, err)
		}
	}
}

// Definition finds a definition; version "" or "latest" is the newest.
func (s *Store) Definition(ctx context.Context, tenant, id, version string) (hash, text string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return "", "", err
	}
	key := s.keys.definition(tenant, id)
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

// DefinitionBySHA finds the text of a definition by its hash.
func (s *Store) DefinitionBySHA(ctx context.Context, tenant, id, hash string) (text string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return "", err
	}
	if text, err = s.field(ctx, s.keys.definition(tenant, id), "text:"+hash); err != nil {
		return "", fmt.Errorf("text %.8s of workflow %s: %w", hash, id, err)
	}
	return text, nil
}

func (s *Store) field(ctx context.Context, key, name string) (string, error) {
	value, err := s.rdb.HGet(ctx, key, name).Result()
	if errors.Is(err, redis.Nil) {
		return "", ErrNotFound
	}
	return value, failed("read "+key, err)
}

// newer compares semantic versions: positive if a is newer than b. A release is
// newer than its previews, and build metadata counts for nothing.
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

// identifiers compares two parts of versions: numbers as numbers, and before words.
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

//go:build !unix

package dev

// lock does nothing: this system has no such locks.
type lock struct{}

func lockData(string) (lock, error) { return lock{}, nil }

func (lock) release() {}

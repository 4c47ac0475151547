package store

import (
	"flunq.io/flunq/engine/store/scripts"
)

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	startScript           = scripts.New("skip", "start")
	commitScript          = scripts.New("mine", "moved", "timer_keys", "event", "skip", "commit")
	forgetScript          = scripts.New("forget")
	unlistScript          = scripts.New("unlist")
	writeEvenIfFullScript = scripts.New("even_if_full", "write_even_if_full")
)

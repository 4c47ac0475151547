package store

import (
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// The scripts, each in a file that names its keys, its arguments and what it returns,
// behind the files with the functions that it calls.
//
//nolint:gochecknoglobals // constants that go-redis wraps
var (
	defineScript = script("define")
	startScript  = script("start")
	commitScript = script("mine", "moved", "event", "commit")
	forgetScript = script("forget")
	unlistScript = script("unlist")

	replyScript       = script("mine", "event", "reply")
	acknowledgeScript = script("owns", "acknowledge")
	claimScript       = script("even_if_full", "claim")
	renewScript       = script("renew")
	deadLetterScript  = script("owns", "dead_letter")
	replayScript      = script("even_if_full", "replay")

	setTimersScript   = script("mine", "moved", "timer_keys", "set_timers")
	fireScript        = script("timer_keys", "unread", "fire")
	retryScript       = script("even_if_full", "owns", "wake", "retry")
	cancelTimerScript = script("even_if_full", "timer_keys", "note", "cancel_timer")
	moveTimerScript   = script("even_if_full", "wake", "note", "move_timer")
	restoreScript     = script("even_if_full", "wake", "note", "restore")
	replayTimerScript = script("even_if_full", "wake", "replay_timer")
	timersFromScript  = script("timers_from")

	briefScript   = script("brief")
	latestScript  = script("latest")
	glanceScript  = script("stream_info", "glance")
	pendingScript = script("pending")
	streamScript  = script("stream_info", "stream")
	trimScript    = script("stream_info", "trim")
	sweepScript   = script("stream_info", "sweep")

	writeEvenIfFullScript = script("even_if_full", "write_even_if_full")
)

// script joins files of scripts/ to one script.
func script(names ...string) *redis.Script {
	var source strings.Builder
	for _, name := range names {
		text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) // the file is embedded
		}
		source.Write(text)
	}
	return redis.NewScript(source.String())
}

// Scripts returns the scripts of a Store. Loading them in advance saves each the
// round trip to a Redis that does not know it yet.
func Scripts() []*redis.Script {
	return []*redis.Script{
		defineScript, startScript, commitScript, forgetScript, unlistScript,
		replyScript, acknowledgeScript, claimScript, renewScript, deadLetterScript, replayScript,
		setTimersScript, fireScript, retryScript, cancelTimerScript, moveTimerScript, restoreScript, replayTimerScript, timersFromScript,
		briefScript, latestScript, glanceScript, pendingScript, streamScript, trimScript, sweepScript,
		writeEvenIfFullScript,
	}
}

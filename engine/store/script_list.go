package store

import "github.com/redis/go-redis/v9"

// Scripts are those that a Store runs. Whoever loads them beforehand spares each
// the way to a Redis that does not know it yet; one that is not among them costs no
// more than that.
func Scripts() []*redis.Script {
	return []*redis.Script{
		defineScript, startScript, commitScript, replyScript, acknowledgeScript, claimScript, renewScript, deadLetterScript, giveUpScript,
		setScript, retryScript, fireScript, cancelScript, restoreScript, moveScript, behindScript, replayScript, replayTimerScript,
		briefScript, glanceScript, pendingScript, streamScript, trimScript, sweepScript,
	}
}

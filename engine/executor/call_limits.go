package executor

import "time"

// Limits bound what a call may cost. A member that is zero means its default.
type Limits struct {
	// Timeout bounds one request from dialling to the last byte of the answer.
	// NewTransport keeps it; 60 s (the simulator draws 1 s to 120 s).
	Timeout time.Duration

	// Body is the most bytes of a response, decompressed; 10 MiB (1 KiB to 16 MiB).
	Body int64

	// Document is the most bytes of an OpenAPI document; 10 MiB (64 KiB to 16 MiB).
	Document int64

	// Headers is the most bytes of a response's headers; 64 KiB (4 KiB to 1 MiB).
	Headers int64

	// Redirects is how many are followed one after the other; 10 (1 to 20).
	Redirects int

	// AllowLoopback lets calls reach this very machine, AllowPrivate private,
	// link-local and other networks that are not the public internet.
	AllowLoopback, AllowPrivate bool
}

// DefaultLimits are the limits of an ordinary deployment.
func DefaultLimits() Limits { return Limits{}.filled() }

// filled puts the default where nothing was set.
func (l Limits) filled() Limits {
	if l.Timeout <= 0 {
		l.Timeout = time.Minute
	}
	if l.Body <= 0 {
		l.Body = 10 << 20
	}
	if l.Document <= 0 {
		l.Document = 10 << 20
	}
	if l.Headers <= 0 {
		l.Headers = 64 << 10
	}
	if l.Redirects <= 0 {
		l.Redirects = 10
	}
	return l
}

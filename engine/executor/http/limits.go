package http

import "time"

// Limits bounds what a call may cost. A zero field means its default.
type Limits struct {
	// Timeout bounds one request from dialling to the last byte of the response.
	// NewTransport enforces it. Default 60 s.
	Timeout time.Duration

	// Body is the maximum size of a response in bytes, decompressed. Default 10 MiB.
	Body int64

	// Document is the maximum size of an OpenAPI document in bytes. Default 10 MiB.
	Document int64

	// Headers is the maximum size of a response's headers in bytes. Default 64 KiB.
	Headers int64

	// Redirects is the maximum number of redirects of one request that are followed. Default 10.
	Redirects int

	// AllowLoopback permits calls to this machine; AllowPrivate permits calls to private,
	// link-local and other networks that are not the public internet.
	AllowLoopback, AllowPrivate bool
}

// DefaultLimits are the limits of an ordinary deployment.
func DefaultLimits() Limits { return Limits{}.filled() }

// filled replaces zero members with their defaults.
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

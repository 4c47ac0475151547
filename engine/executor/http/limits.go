package http

import "time"

// Timeout bounds one request from dialling to the last byte of the response. NewTransport enforces it.
const Timeout = time.Minute

// Further limits of one request.
const (
	maxBody      = 10 << 20 // bytes of a response, decompressed
	maxHeaders   = 64 << 10 // bytes of a response's headers
	maxRedirects = 10
)

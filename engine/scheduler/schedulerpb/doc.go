// Package schedulerpb is the wire format of the scheduler: scheduler.proto and status.proto, and the
// Go code that protoc generates from them.
package schedulerpb

//go:generate protoc -I .. --go_out=.. --go_opt=paths=source_relative --go-grpc_out=.. --go-grpc_opt=paths=source_relative schedulerpb/scheduler.proto schedulerpb/status.proto

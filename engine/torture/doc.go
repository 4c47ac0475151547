// Package torture exists to find out what the engine loses, doubles or does too
// early when its processes and its Redis are killed, stopped and starved under it:
//
//	go test ./engine/torture -torture -v [-run Name] [-seed N]
package torture

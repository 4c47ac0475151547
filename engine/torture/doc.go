// Package torture tests whether the engine loses, duplicates or hurries anything while
// its processes and its Redis are killed, stopped and starved:
//
//	go test ./engine/torture -torture -v [-run Name] [-seed N]
package torture

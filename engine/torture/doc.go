// Package torture tests that the engine loses nothing, duplicates nothing and fires nothing early
// while its processes and its Redis are killed, stopped and starved of memory:
//
//	go test ./engine/torture -torture -v [-run Name] [-seed N]
package torture

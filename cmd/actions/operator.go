package actions

import (
	"os"
	"os/user"
	"strings"
)

// UserAtHost returns the name of the operator that histories record, such as "ada@laptop".
func UserAtHost() string {
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username[strings.LastIndexByte(u.Username, '\\')+1:] // Windows puts the domain before it
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return name
	}
	return name + "@" + host
}
